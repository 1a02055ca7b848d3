//! Months, by which messages and their history are laid down, so that old ones can be dropped whole.

use pombo_kernel::id::MessageKey;
use pombo_kernel::time::Time;

/// A month of a year, counted from year 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Month(i64);

/// The tables that are laid down by month. What is in none of them is in a partition `…_rest`.
pub(super) const BY_MONTH: [&str; 2] = ["message", "history"];

const DAY_MS: i64 = 86_400_000;

impl Month {
    /// The month that a moment lies in, by UTC.
    pub(super) fn of(time: Time) -> Month {
        // Years begin in March here, so that the day that some of them lack is their last one.
        let day = time.millis().div_euclid(DAY_MS) + 719_468;
        let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        Month((era * 400 + year_of_era) * 12 + from_march + 2)
    }

    pub(super) fn plus(self, months: i64) -> Month {
        Month(self.0 + months)
    }

    pub(super) fn start(self) -> Time {
        let from_march = self.0 - 2;
        let (year, month) = (from_march.div_euclid(12), from_march.rem_euclid(12));
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        Time::from_millis((365 * year + leap_days + (153 * month + 2) / 5 - 719_468) * DAY_MS)
    }

    /// The first key of its messages, and the first one after them.
    pub(super) fn keys(self) -> (MessageKey, MessageKey) {
        (MessageKey::at(self.start()), MessageKey::at(self.plus(1).start()))
    }

    /// How its partitions' names end: `2026_11`.
    pub(super) fn name(self) -> String {
        format!("{:04}_{:02}", self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }

    /// The month of a partition with this name.
    pub(super) fn named(partition: &str) -> Option<Month> {
        let (rest, month) = partition.rsplit_once('_')?;
        let (_, year) = rest.rsplit_once('_')?;
        let month = month.parse::<i64>().ok().filter(|month| (1..=12).contains(month))?;
        Some(Month(year.parse::<i64>().ok()? * 12 + month - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    #[test]
    fn a_month_is_the_keys_from_its_first_moment_to_the_next_ones() {
        for (text, name, start, end) in [
            ("2026-11-16T04:00:00Z", "2026_11", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"),
            ("2026-12-31T23:59:59.999Z", "2026_12", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("2028-02-29T12:00:00Z", "2028_02", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
            ("2100-02-28T12:00:00Z", "2100_02", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"),
            ("2020-01-01T00:00:00Z", "2020_01", "2020-01-01T00:00:00Z", "2020-02-01T00:00:00Z"),
        ] {
            let month = Month::of(time(text));
            assert_eq!(month.name(), name);
            assert_eq!(Month::named(&format!("message_{name}")), Some(month));
            assert_eq!((month.start(), month.plus(1).start()), (time(start), time(end)));
            assert_eq!(month.keys(), (MessageKey::at(time(start)), MessageKey::at(time(end))));
        }
        assert_eq!(Month::named("message_rest"), None);
    }

    #[test]
    fn months_follow_each_other_without_a_gap() {
        let first = Month::of(time("2020-01-01T00:00:00Z"));
        for nth in 0..2_400 {
            let month = first.plus(nth);
            assert_eq!(Month::of(month.start()), month);
            let last = Time::from_millis(month.plus(1).start().millis() - 1);
            assert_eq!(Month::of(last), month);
        }
    }
}
