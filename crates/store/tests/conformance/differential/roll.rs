//! What the stores are told to do, by dice.

use pombo_kernel::attachment::Blob;
use pombo_kernel::block::BlockChange;
use pombo_kernel::breaker::{Limits, Sign};
use pombo_kernel::classify::Scope;
use pombo_kernel::delivery::Delivery;
use pombo_kernel::dice::Dice;
use pombo_kernel::flow::Rate;
use pombo_kernel::message::{Actor, Body, Draft, FailureReason, Idempotency, Priority, QueueName};
use pombo_kernel::name::Tenant;
use pombo_kernel::time::{Span, Time};
use pombo_store::audit::Event;
use pombo_store::dead::Act;
use pombo_store::shelf::{Expect, Leaf, Pick, Shelf, Shelve, Wanted};
use pombo_store::{Place, Vitals, transition};

use super::campaigns::{CAMPAIGNS, Move};
use crate::world::{self, End, START};

const COMMANDS: usize = 60;
pub(super) const TENANTS: [&str; 2] = ["default", "acme"];
pub(super) const LANES: [&str; 2] = ["default", "bulk"];
pub(super) const SHELVES: [Shelf; 2] = [Shelf::Suppression, Shelf::Operation];
pub(super) const DOCS: [&str; 4] = ["a", "a\0", "a\u{1}", "b"];
const ORDERS: [i64; 4] = [i64::MIN, 0, 1, i64::MAX];
const TOPICS: [Option<&str>; 3] = [None, Some("t"), Some("t\0")];

/// One command, as far as it can be said beforehand. Whom it is about is a number, taken modulo those there are.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Accept(Vec<Wish>),
    Claim {
        node: i64,
        lane: usize,
        max: usize,
        bounded: bool,
        lined: bool,
        weighed: bool,
    },
    Settle(Vec<Ending>),
    Examine {
        place: Place,
        change: BlockChange,
        vitals: Vitals,
    },
    Report {
        channel: &'static str,
        id: usize,
        delivery: Delivery,
    },
    Release(Vec<usize>),
    /// One that was claimed turns out not to be wanted.
    LeaveOut(usize),
    Cancel {
        which: usize,
        tenant: usize,
    },
    Hasten {
        which: usize,
        tenant: usize,
    },
    Rule {
        which: Vec<usize>,
        act: Act,
        tenant: usize,
    },
    Edit {
        which: usize,
        wish: Box<Wish>,
        tenant: usize,
        stale: bool,
    },
    Expire {
        max: usize,
    },
    Block {
        place: Place,
        kind: u64,
        secs: u64,
    },
    Unblock {
        place: Place,
    },
    Heartbeat {
        node: i64,
        secs: u64,
    },
    TakeOver {
        node: i64,
        max: usize,
    },
    PutTemplate {
        tenant: usize,
        name: &'static str,
        text: &'static str,
    },
    Shelve(Vec<Shelve>),
    Campaign(Move),
    /// Removes everything of somebody.
    Erase {
        tenant: usize,
        address: &'static str,
        max: usize,
    },
    /// Removes what ended so long ago, of some ends all but the last ones, and keys of a while ago.
    Prune {
        secs: u64,
        last: u64,
        max: usize,
    },
    Pass {
        secs: u64,
    },
    Commit,
    Reopen,
}

/// A draft whose times count from when it is accepted, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) draft: Draft,
    pub(super) send_in: Option<i64>,
    pub(super) expires_in: Option<i64>,
}

impl Wish {
    /// The draft, if it is accepted at that time.
    pub(super) fn at(&self, now: Time) -> Draft {
        let at = |secs: i64| Time::from_millis(now.millis() + 1_000 * secs);
        Draft { send_at: self.send_in.map(at), expires_at: self.expires_in.map(at), ..self.draft.clone() }
    }
}

/// How one of the claims ends.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) which: usize,
    pub(super) end: End,
    pub(super) vitals: Vitals,
    pub(super) chance: u64,
}

pub(super) struct Roll(pub(super) Dice);

impl Roll {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).unwrap()
    }

    pub(super) fn secs(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn node(&mut self) -> i64 {
        self.pick(&[1, 1, 2, 3])
    }

    fn place(&mut self) -> Place {
        let channel = self.pick(&["crm", "mail"]);
        match self.pick(&[None, Some("a"), Some("b")]) {
            Some(destination) => world::destination(channel, destination),
            None => world::channel(channel),
        }
    }

    pub(super) fn wish(&mut self) -> Wish {
        let queue = QueueName {
            tenant: self.pick(&[TENANTS[0], TENANTS[0], TENANTS[0], TENANTS[1]]).parse().unwrap(),
            lane: self.pick(&[LANES[0], LANES[0], LANES[1]]).parse().unwrap(),
            channel: self.pick(&["crm", "crm", "mail"]).parse().unwrap(),
            destination: self.pick(&["a", "a", "b"]).into(),
            campaign: self.one_in(6).then(|| CAMPAIGNS[0].parse().unwrap()),
        };
        let idempotency = self.one_in(4).then(|| Idempotency {
            key: self.pick(&["k1", "k2", "k3"]).into(),
            fingerprint: [self.pick(&[1, 1, 1, 2]); 16],
        });
        let body = Body {
            to: self.pick(&["ana", "rui", "eva\0"]).into(),
            kind: self.one_in(3).then(|| "invoice".into()),
            template: self.one_in(3).then(|| "welcome".into()),
            reference: self.one_in(3).then(|| self.pick(&["r1", "r2"]).into()),
            ..Body::default()
        };
        let draft = Draft {
            id: None,
            queue,
            priority: Priority::new(self.pick(&[0, 4, 5, 5, 5, 9])).unwrap(),
            send_at: None,
            expires_at: None,
            ordering_key: self.one_in(3).then(|| self.pick(&["o1", "o2"]).into()),
            idempotency,
            blobs: self
                .one_in(6)
                .then(|| Blob::of(self.pick(&["one", "two"]).as_bytes()))
                .into_iter()
                .collect(),
            body,
        };
        Wish {
            draft,
            send_in: self.one_in(4).then(|| self.pick(&[-5, 0, 1, 5, 20, 60])),
            expires_in: self.one_in(3).then(|| self.pick(&[-1, 1, 5, 30, 30, 90])),
        }
    }

    fn end(&mut self) -> End {
        let scope = self.pick(&[Scope::Destination, Scope::Destination, Scope::Channel]);
        match self.below(11) {
            0..3 => End::Sent,
            3..6 => End::Retry(Span::from_secs(self.pick(&[0, 1, 5, 30]))),
            6 => End::Failed(self.pick(FailureReason::ALL)),
            7..9 => End::Held(scope),
            9 => End::Unreached(Span::from_secs(self.pick(&[0, 1, 5, 30]))),
            _ => End::Paused(scope, Span::from_secs(self.secs(40))),
        }
    }

    /// How the destination is, with a breaker that opens soon.
    fn vitals(&mut self) -> Vitals {
        let limits =
            Limits { failures: 2, percent: 40, volume: 4, lasting: Span::from_secs(1), ..Limits::default() };
        Vitals {
            sign: self.pick(&[Sign::Ill, Sign::Ill, Sign::Well, Sign::None]),
            scope: self.pick(&[Scope::Destination, Scope::Destination, Scope::Channel]),
            limits,
            rate: self.one_in(6).then(|| Rate::per_second(self.pick(&[1, 30]))),
        }
    }

    fn ending(&mut self) -> Ending {
        let (which, end, vitals) = (self.below(1_000), self.end(), self.vitals());
        Ending { which, end, vitals, chance: self.0.next_u64() }
    }

    /// What a reader of documents asks for.
    pub(super) fn wanted(&mut self) -> Wanted {
        let tenant = self.pick(&[None, Some(TENANTS[0]), Some(TENANTS[0]), Some(TENANTS[1])]);
        let (order, id) = (self.pick(&ORDERS), self.pick(&DOCS).to_owned());
        let after = |here: bool| here.then(|| (order, id.clone()));
        let due = |secs: u64| START + Span::from_secs(secs);
        let paged = self.one_in(2);
        let pick = match self.below(3) {
            0 => Pick::All { after: after(paged && tenant.is_some()) },
            1 if tenant.is_some() => {
                Pick::Topic { topic: self.pick(&TOPICS).unwrap_or_default().into(), after: after(paged) }
            }
            _ => Pick::Due {
                from: due(self.secs(3)),
                until: due(self.secs(5)),
                after: paged.then(|| (due(self.secs(4)), id)),
            },
        };
        let tenant = tenant.map(|tenant| tenant.parse().unwrap());
        Wanted { shelf: self.pick(&SHELVES), tenant, pick, limit: self.pick(&[0, 1, 2, 100]) }
    }

    fn shelve(&mut self) -> Shelve {
        let tenant: Tenant = self.pick(&[TENANTS[0], TENANTS[0], TENANTS[1]]).parse().unwrap();
        let expect = match self.below(5) {
            0 | 1 => Expect::Any,
            2 => Expect::Nothing,
            _ => Expect::Version(self.pick(&[0, 1, 1, 2, 3])),
        };
        let leaf = (!self.one_in(4)).then(|| Leaf {
            order: self.pick(&ORDERS),
            topic: self.pick(&TOPICS).map(Into::into),
            due: self.one_in(2).then(|| START + Span::from_secs(self.secs(4))),
            body: self.pick(&["{}", "[\"\\u0000\"]", "\"a\""]).into(),
        });
        let record = self.one_in(2).then(|| {
            let (by, what) = (Actor("ana".into()), serde_json::json!({ "put": leaf.is_some() }));
            transition::act_of(Event::SuppressionPut, &tenant, &by, &what, START)
        });
        Shelve { shelf: self.pick(&SHELVES), id: self.pick(&DOCS).into(), tenant, expect, leaf, record }
    }

    /// How many go into one call: mostly one.
    fn together(&mut self) -> std::ops::Range<usize> {
        0..self.pick(&[1, 1, 1, 1, 2, 5])
    }

    fn command(&mut self) -> Command {
        match self.below(115) {
            0..24 => Command::Accept(self.together().map(|_| self.wish()).collect()),
            24..40 => Command::Claim {
                node: self.node(),
                lane: self.pick(&[0, 0, 1]),
                max: self.pick(&[0, 1, 2, 3, 20, 40]),
                bounded: self.one_in(3),
                lined: self.one_in(3),
                weighed: self.one_in(2),
            },
            40..43 => Command::Report {
                channel: self.pick(&["crm", "crm", "mail"]),
                id: self.below(3),
                delivery: self.pick(Delivery::ALL),
            },
            43..58 => Command::Settle(self.together().map(|_| self.ending()).collect()),
            58 => Command::LeaveOut(self.below(1_000)),
            59..62 => Command::Release(self.together().map(|_| self.below(1_000)).collect()),
            62..64 => Command::Cancel { which: self.below(1_000), tenant: self.pick(&[0, 0, 0, 1]) },
            64..66 => Command::Hasten { which: self.below(1_000), tenant: self.pick(&[0, 0, 0, 1]) },
            66 => Command::Examine {
                place: self.place(),
                change: self.pick(&[
                    BlockChange::Lift,
                    BlockChange::Reached,
                    BlockChange::Ready,
                    BlockChange::Renew("down".into()),
                ]),
                vitals: self.vitals(),
            },
            67..69 => Command::Expire { max: self.pick(&[0, 1, 2, 10]) },
            69..72 => Command::Block { place: self.place(), kind: self.0.below(3), secs: self.secs(40) },
            72..75 => Command::Unblock { place: self.place() },
            75..77 => Command::Heartbeat { node: self.node(), secs: self.secs(60) },
            77..79 => Command::TakeOver { node: self.node(), max: self.pick(&[1, 2, 10]) },
            79..82 => Command::Shelve((0..self.pick(&[1, 3, 8])).map(|_| self.shelve()).collect()),
            82 => Command::PutTemplate {
                tenant: self.below(TENANTS.len()),
                name: self.pick(&["a", "a-b", "b"]),
                text: self.pick(&["x", "y"]),
            },
            83..89 => Command::Pass { secs: self.pick(&[0, 1, 1, 5, 10, 30, 30, 90]) },
            89..97 => Command::Commit,
            97..100 => Command::Reopen,
            _ => Command::Campaign(self.campaign_move()),
        }
    }

    /// What somebody does about what has ended.
    fn operator(&mut self) -> Command {
        let tenant = self.pick(&[0, 0, 0, 1]);
        if self.one_in(6) {
            let (secs, last) = (self.pick(&[0, 1, 10, 60]), self.pick(&[0, 1, 3]));
            return Command::Prune { secs, last, max: self.pick(&[1, 2, 50]) };
        }
        if self.one_in(8) {
            let address = self.pick(&["ana", "rui", "eva\0", "person 3"]);
            return Command::Erase { tenant, address, max: self.pick(&[1, 3, 50]) };
        }
        match self.below(5) {
            0..3 => Command::Rule {
                which: (0..self.pick(&[1, 3, 9])).map(|_| self.below(1_000)).collect(),
                act: self.pick(&[Act::Reprocess, Act::Reprocess, Act::Reprocess, Act::Discard]),
                tenant,
            },
            _ => Command::Edit {
                which: self.below(1_000),
                wish: Box::new(self.wish()),
                tenant,
                stale: self.one_in(5),
            },
        }
    }

    /// Mostly one step after another; now and then a crowd of one kind, so that queues grow long.
    pub(super) fn commands(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.one_in(2) {
            commands.extend(self.campaign_under_way().map(Command::Campaign));
        }
        while commands.len() < COMMANDS {
            match self.command() {
                Command::Accept(wishes) if self.one_in(12) => {
                    commands.extend((0..20).map(|_| Command::Accept(wishes.clone())));
                }
                command => commands.push(command),
            }
            if self.one_in(8) {
                commands.push(self.operator());
            }
        }
        commands
    }
}
