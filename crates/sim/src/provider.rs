//! The pretend provider: answers by dice, and counts on its own what it took.

use pombo_kernel::dice::Dice;
use pombo_kernel::reply::{Fault, FaultKind, Receipt, Refusal, Reply};

use crate::chance::Chance;

/// What the provider does with one call.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// When it takes the message, in milliseconds after the call; never, if none.
    pub(crate) takes_after: Option<u64>,
    /// When its answer is there.
    pub(crate) answers_after: u64,
    pub(crate) reply: Reply,
    pub(crate) said: Said,
}

/// What an answer means to whoever knows the provider: what the engine should conclude from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Accepted,
    /// It will never take this one.
    Never,
    /// It blames our credentials.
    OurFault,
    /// Later, and not before so many seconds if it says so.
    /// Whether the destination itself is in trouble, as opposed to having had enough of us.
    Later {
        seconds: Option<u64>,
        down: bool,
    },
    /// Nothing was said: perhaps it took it.
    Nothing,
    /// We hung up before it said anything.
    CutOff,
    /// The sender is gone.
    SenderGone,
}

/// What a destination that is down does with everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    Refuses,
    Hangs,
    Apologises,
}

/// Beyond the channel's own deadline, the engine's shell cuts an attempt off.
const MARGIN_MS: u64 = 2_000;

impl Script {
    /// One call in a run where so many of a hundred replies are not simply "accepted".
    pub(crate) fn roll(refusals: u64, timeout_ms: u64, dice: &mut Dice) -> Script {
        let answers_after = if dice.one_in(5) { dice.between(100, timeout_ms) } else { dice.between(1, 80) };
        if dice.below(100) >= refusals {
            let mut script = Script::accepts(dice.below(answers_after + 1), answers_after);
            if let (Reply::Accepted(receipt), true) = (&mut script.reply, dice.one_in(30)) {
                let seconds = *dice.pick(&["1", "10", "40"]);
                let hints = [("ratelimit-remaining", "0"), ("ratelimit-reset", seconds)];
                receipt.hints = hints.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            }
            return script;
        }
        let refused = |status: u16, said: Said, hints: Vec<(String, String)>| Script {
            takes_after: None,
            answers_after,
            reply: Reply::Refused(Refusal {
                status: Some(status),
                text: "no".into(),
                hints,
                ..Refusal::default()
            }),
            said,
        };
        match dice.below(12) {
            0 => refused(*dice.pick(&[400, 404, 410, 422]), Said::Never, Vec::new()),
            1 | 2 => refused(*dice.pick(&[401, 403]), Said::OurFault, Vec::new()),
            3 => {
                let seconds = Some(*dice.pick(&[0, 1, 5, 30, 90, 100_000]));
                // What cannot be read, or lies in the past, asks for nothing.
                let seconds = seconds.filter(|_| !dice.one_in(5));
                let nonsense = *dice.pick(&["soon", "-7", "Wed, 21 Oct 2015 07:28:00 GMT"]);
                let hint = seconds.map_or_else(|| nonsense.to_owned(), |seconds| seconds.to_string());
                let status = *dice.pick(&[429, 429, 503]);
                let hints = vec![("retry-after".to_owned(), hint)];
                refused(status, Said::Later { seconds, down: status == 503 }, hints)
            }
            4 | 5 => {
                let status = *dice.pick(&[408, 429, 500, 502, 503]);
                refused(status, Said::Later { seconds: None, down: status != 429 }, Vec::new())
            }
            6 => Script::unreachable(answers_after, dice),
            7 => {
                let taken = dice.one_in(2).then(|| dice.below(answers_after + 1));
                Script::doubtful(FaultKind::ConnectionReset, taken, answers_after)
            }
            8 => Script::doubtful(FaultKind::Timeout, None, timeout_ms),
            9 => Script::doubtful(FaultKind::Timeout, Some(dice.below(timeout_ms)), timeout_ms),
            // So slow that it takes the message when nobody waits any more.
            10 => {
                let late = timeout_ms + MARGIN_MS + dice.between(0, 90_000);
                Script::doubtful(FaultKind::Timeout, Some(late), timeout_ms + MARGIN_MS)
            }
            // Just in time.
            _ => Script::accepts(dice.below(timeout_ms), timeout_ms),
        }
    }

    /// One call to a destination that is down.
    pub(crate) fn down(how: Outage, timeout_ms: u64, dice: &mut Dice) -> Script {
        let answers_after = dice.between(1, 80);
        match how {
            Outage::Refuses => Script::unreachable(answers_after, dice),
            Outage::Hangs => Script::doubtful(FaultKind::Timeout, None, timeout_ms),
            Outage::Apologises => Script::unavailable(answers_after),
        }
    }

    fn unreachable(answers_after: u64, dice: &mut Dice) -> Script {
        let kind = *dice.pick(&[FaultKind::ConnectionRefused, FaultKind::Dns]);
        let reply = Reply::Unreachable(Fault { kind, text: "not reached".into() });
        let said = Said::Later { seconds: None, down: true };
        Script { takes_after: None, answers_after, reply, said }
    }

    fn unavailable(answers_after: u64) -> Script {
        let reply = Reply::Refused(Refusal { status: Some(503), text: "no".into(), ..Refusal::default() });
        Script { takes_after: None, answers_after, reply, said: Said::Later { seconds: None, down: true } }
    }

    /// One call when nothing goes wrong any more: a passing refusal now and then.
    pub(crate) fn calm(dice: &mut Dice) -> Script {
        let answers_after = dice.between(1, 80);
        if !dice.one_in(8) {
            return Script::accepts(dice.below(answers_after + 1), answers_after);
        }
        Script::unavailable(answers_after)
    }

    fn accepts(takes_after: u64, answers_after: u64) -> Script {
        let receipt = Receipt { code: Some(200), ..Receipt::default() };
        Script {
            takes_after: Some(takes_after),
            answers_after,
            reply: Reply::Accepted(receipt),
            said: Said::Accepted,
        }
    }

    fn doubtful(kind: FaultKind, takes_after: Option<u64>, answers_after: u64) -> Script {
        let reply = Reply::Doubtful(Fault { kind, text: "no answer".into() });
        Script { takes_after, answers_after, reply, said: Said::Nothing }
    }
}
