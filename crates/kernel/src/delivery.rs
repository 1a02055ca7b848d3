//! What a provider reports of a message after it took it.
//!
//! `sent` is final; this is a word of its own beside it, which only moves forward: reports come late, twice and
//! out of order, and the furthest one stands.

pub mod evolution;
pub mod resend;
pub mod token;

use crate::message::slugs;
#[cfg(feature = "planted")]
use crate::planted;
use crate::time::Time;

slugs! {
    /// How far a sent message has come, as its provider reports. A later one in this order outranks an earlier
    /// one: a mail that was delivered may still bounce, and one that was read has certainly arrived.
    Delivery {
        /// The provider's own provider has it.
        Accepted = 1 "accepted",
        /// The provider took it and could not send it on.
        Failed = 2 "failed",
        Delivered = 3 "delivered",
        Bounced = 4 "bounced",
        Read = 5 "read",
        Complained = 6 "complained",
    }
}

/// One report of a provider about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The provider's id of the message, as it stood in the receipt of the send.
    pub provider_id: String,
    pub delivery: Delivery,
    /// Why, where the provider says so: a bounce's type, a failure's reason. Bounded; never an address.
    pub detail: Option<String>,
    /// When it happened, where the provider's word on that can be trusted.
    pub at: Option<Time>,
}

/// What stands of a sent message's delivery: the furthest report so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWord {
    pub state: Delivery,
    /// When it happened, by the provider's clock, or when we heard of it.
    pub at: Time,
    pub detail: Option<String>,
}

/// The longest detail that is kept, in bytes.
const DETAIL_MAX: usize = 512;

impl Report {
    /// What stands once this report is heard at `now`, if it goes further than what is `known`.
    ///
    /// Only the rank counts, so that reports may come in any order and any number of times.
    pub fn beyond(&self, known: Option<Delivery>, now: Time) -> Option<LastWord> {
        #[cfg(feature = "planted")]
        let known = known.filter(|_| !planted::is(planted::Bug::ReportGoesBack));
        if known.is_some_and(|known| known >= self.delivery) {
            return None;
        }
        let detail =
            self.detail.as_deref().map(|text| text[..text.floor_char_boundary(DETAIL_MAX)].to_owned());
        Some(LastWord { state: self.delivery, at: self.at.unwrap_or(now), detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Time = Time::from_millis(1_700_000_000_000);

    fn report(delivery: Delivery) -> Report {
        Report { provider_id: "p".into(), delivery, detail: None, at: None }
    }

    fn heard(reports: &[Delivery]) -> Option<Delivery> {
        reports.iter().fold(None, |known, delivery| {
            report(*delivery).beyond(known, NOW).map(|word| word.state).or(known)
        })
    }

    proptest! {
        #[test] // REQ ML-9
        fn in_whatever_order_and_however_often_reports_come_the_furthest_stands(
            reports in prop::collection::vec(prop::sample::select(Delivery::ALL), 0..8),
            shuffled in any::<prop::sample::Index>(),
        ) {
            let furthest = reports.iter().max().copied();
            prop_assert_eq!(heard(&reports), furthest);
            let mut other = reports.clone();
            other.reverse();
            prop_assert_eq!(heard(&other), furthest);
            if !other.is_empty() {
                let turn = shuffled.index(other.len());
                other.rotate_left(turn);
                other.extend(reports);
            }
            prop_assert_eq!(heard(&other), furthest, "another order, and everything twice");
        }
    }

    #[test] // REQ ML-9
    fn a_report_is_dated_by_its_provider_or_by_its_arrival() {
        let earlier = Time::from_millis(NOW.millis() - 60_000);
        let dated = Report { at: Some(earlier), ..report(Delivery::Read) };
        assert_eq!(dated.beyond(Some(Delivery::Delivered), NOW).unwrap().at, earlier);
        assert_eq!(report(Delivery::Read).beyond(None, NOW).unwrap().at, NOW);
    }

    #[test]
    fn a_detail_is_cut_between_characters() {
        let wordy = Report { detail: Some("é".repeat(300) + "x"), ..report(Delivery::Bounced) };
        assert_eq!(wordy.beyond(None, NOW).unwrap().detail.unwrap(), "é".repeat(256));
    }
}
