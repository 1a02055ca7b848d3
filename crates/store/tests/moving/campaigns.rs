//! Campaigns of stores that move: a draft with its list, and one of whose messages one is on its way.

use std::sync::Arc;

use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::campaign::recipient::{Listed, Person, Refusal, Standing};
use pombo_kernel::message::{Json, QueueName};
use pombo_store::Rates;
use pombo_store::roster::{self, Enlist, Enlisted, Feed, Recipient, Roster, Serving};

use super::*;

const DRAFT: &str = "cmp_draft";
const RUNS: &str = "cmp_runs";

fn person(number: u64) -> Listed {
    let payload = Json::from_text(format!("{{\"n\":{number},\"odd\":{ODD:?}}}")).ok();
    let (to, key) = (format!("{number}{ODD}"), format!("{ODD}{number}"));
    Listed { line: 10 * number, of: Ok(Person { to, key, payload }) }
}

fn nobody() -> Listed {
    Listed { line: 7, of: Err(Refusal { to: ODD.into(), reason: ODD.into() }) }
}

impl<C: Core> Works<'_, C> {
    fn campaign(&mut self, id: &str) -> Campaign {
        let doc = self.core.reader().unwrap().doc(Shelf::Campaign, &Tenant::default(), id).unwrap().unwrap();
        roster::read(&doc).unwrap()
    }

    fn put(&mut self, id: &str, expect: Expect, campaign: &Campaign) {
        let (shelf, tenant, leaf) = (Shelf::Campaign, Tenant::default(), Some(roster::leaf(campaign)));
        let wish = Shelve { shelf, tenant, id: id.into(), expect, leaf, record: None };
        assert!(matches!(self.core.shelve(&wish, self.now).unwrap(), Shelved::Done { .. }));
        self.commit();
    }

    fn enlist(&mut self, id: &str, lines: Vec<Listed>) -> Vec<Enlisted> {
        let (tenant, campaign, by) = (Tenant::default(), id.parse().unwrap(), Actor("ana".into()));
        let became = self.core.enlist(&Enlist { tenant, campaign, lines, by }, self.now).unwrap().unwrap();
        self.commit();
        became
    }

    fn feed(&mut self, id: &str, servings: Vec<(u64, Serving)>) {
        let feed = Feed { tenant: Tenant::default(), campaign: id.parse().unwrap(), servings };
        self.core.feed(&feed, self.now).unwrap().unwrap();
        self.commit();
    }

    /// Claims for campaigns, on a line that minds how much is sent on a day.
    fn claim_bulk(&mut self, node: NodeId) -> Vec<Claimed> {
        let mut rates = Rates::default();
        rates.lines.insert("crm".parse().unwrap(), LineRules { daily_cap: Some(2), ..LineRules::default() });
        let ask = Ask { node, lane: "bulk".parse().unwrap(), max: 10, rates: Arc::new(rates) };
        let claimed = self.core.claim(&ask, self.now).unwrap();
        self.commit();
        claimed
    }
}

fn serving(number: u64) -> (u64, Serving) {
    let campaign = Some(RUNS.parse().unwrap());
    let queue = QueueName { lane: "bulk".parse().unwrap(), campaign, ..queue("crm", ODD) };
    let body = Body { to: format!("{number}{ODD}"), ..Body::default() };
    (number, Serving::Message(Box::new(Draft { queue, body, ..draft() })))
}

/// Makes a draft with a list, and a campaign of whose messages one is on its way: that one.
pub(super) fn furnish<C: Core>(w: &mut Works<'_, C>) -> MessageId {
    let text = r#"{"name": "Spring", "channel": "crm", "lane": "bulk", "template": "spring", "template_version": 1,
        "created_at": "2026-05-01T12:00:00Z", "created_by": "ana", "state": "draft"}"#;
    let made: Campaign = serde_json::from_str(text).unwrap();
    w.put(DRAFT, Expect::Nothing, &made);
    let became = w.enlist(DRAFT, vec![person(1), nobody(), person(1), person(2)]);
    assert_eq!(became, [Enlisted::Added, Enlisted::Invalid, Enlisted::Duplicate, Enlisted::Added]);
    w.put(RUNS, Expect::Nothing, &made);
    w.enlist(RUNS, (1..=4).map(person).collect());
    let mut runs = w.campaign(RUNS);
    runs.start(w.now).unwrap();
    w.put(RUNS, Expect::Version(2), &runs);
    w.feed(RUNS, vec![serving(1), serving(2), (3, Serving::Suppressed(ODD.into()))]);
    let claimed = w.claim_bulk(NodeId(9));
    let [claimed] = &claimed[..] else { panic!("{claimed:?}") };
    claimed.message.id
}

/// Everybody on the lists.
pub(super) fn recipients(reader: &mut impl Reading) -> Vec<Recipient> {
    let listed = [DRAFT, RUNS].map(|id| {
        let (tenant, campaign) = (Tenant::default(), id.parse().unwrap());
        reader.recipients(&Roster { tenant, campaign, standing: None, after: 0, limit: 100 }).unwrap()
    });
    assert_eq!(listed.each_ref().map(Vec::len), [3, 4]);
    listed.into_iter().flatten().collect()
}

/// The one that was on its way has been taken over and was sent, just now.
pub(super) fn goes_on<C: Core>(w: &mut Works<'_, C>) {
    let before = w.now;
    assert_eq!(w.campaign(RUNS).flight, None);
    assert_eq!(w.claim_bulk(NodeId(5)), [], "the wait after it");
    w.now = before + secs(15);
    let next = w.claim_bulk(NodeId(5));
    let [next] = &next[..] else { panic!("{next:?}") };
    assert_eq!(w.campaign(RUNS).flight.unwrap().message, next.message.id);
    assert_eq!(w.core.settle(settlement(next, End::Sent, w.now), w.now).unwrap(), Settled::Done);
    w.commit();
    w.feed(RUNS, vec![serving(1), serving(3), serving(4)]);
    w.now = before + secs(30);
    assert_eq!(w.claim_bulk(NodeId(5)), [], "two were sent on this day");
    // Who was listed is known, and numbers go on.
    let became = w.enlist(DRAFT, vec![person(2), person(3)]);
    assert_eq!(became, [Enlisted::Duplicate, Enlisted::Added]);
    let mut reader = w.core.reader().unwrap();
    let listed = |id: &str| Roster {
        tenant: Tenant::default(),
        campaign: id.parse().unwrap(),
        standing: None,
        after: 0,
        limit: 100,
    };
    let numbers: Vec<u64> = reader.recipients(&listed(DRAFT)).unwrap().iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let standings: Vec<Standing> =
        reader.recipients(&listed(RUNS)).unwrap().iter().map(|it| it.standing).collect();
    assert_eq!(standings, [Standing::Sent, Standing::Sent, Standing::Suppressed, Standing::Queued]);
    // A list that is new has a number of its own.
    let mut new = w.campaign(DRAFT);
    new.roll = Default::default();
    w.put("cmp_new", Expect::Nothing, &new);
    assert_eq!(w.enlist("cmp_new", vec![person(1)]), [Enlisted::Added]);
    w.now = before;
}

/// What a check says of campaigns that cannot be: a change of the tables, and the words.
pub(super) const WRONG: [(&str, &str); 4] = [
    (
        "UPDATE recipient SET standing = 3 WHERE message IS NOT NULL",
        "recipients who stand elsewhere than they do",
    ),
    ("DELETE FROM recipient WHERE number = 1", "as many recipients in each standing as were counted"),
    ("DELETE FROM roster", "as many recipients in each standing as were counted"),
    ("DELETE FROM claim", "wait for the end of a message that is not being sent"),
];
