//! How often somebody may show a key that opens nothing.
//!
//! Only failures are counted, so a good key works from anywhere at any time. They are counted by the address that they
//! come from, and by how the key begins, for whoever guesses at one key from many addresses. The tables have a fixed
//! size: when one is full, whoever was first seen longest ago is forgotten.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use pombo_kernel::time::{Span, Time};

/// Failures in a row that are answered as such.
const BURST: u64 = 20;
/// After those, one in this time.
pub(crate) const STEP: Span = Span::from_secs(6);
/// Addresses, and beginnings of keys, that are remembered.
const ENTRIES: usize = 4_096;
/// How much of a key is its beginning: the prefix that all keys have, and eight characters.
const PREFIX_BYTES: usize = 14;

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    Counted,
    /// There were too many; one more may be made after [`STEP`].
    TooMany,
}

#[derive(Debug, Default)]
pub(crate) struct Guesses(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    addresses: Table,
    prefixes: Table,
}

impl Guesses {
    /// Takes note of a key that opened nothing.
    pub(crate) fn wrong(&self, key: &str, from: Option<IpAddr>, now: Time) -> Guess {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An address that has had its share cannot push others out of the second table.
        if let Some(from) = from
            && tables.addresses.count(&network(from), now) == Guess::TooMany
        {
            return Guess::TooMany;
        }
        let prefix = &key.as_bytes()[..key.len().min(PREFIX_BYTES)];
        tables.prefixes.count(prefix, now)
    }
}

/// What one person can be expected to have: an address, or a network of 64 bits.
fn network(address: IpAddr) -> [u8; 8] {
    let mut bytes = [0; 8];
    match address.to_canonical() {
        // A network of IPv6 that begins like this is not in use.
        IpAddr::V4(address) => bytes[4..].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes.copy_from_slice(&address.octets()[..8]),
    }
    bytes
}

/// For each name, until when its allowance is used up.
#[derive(Debug, Default)]
struct Table {
    until: BTreeMap<Box<[u8]>, Time>,
    /// The names, by when they were first seen.
    order: VecDeque<Box<[u8]>>,
}

impl Table {
    fn count(&mut self, name: &[u8], now: Time) -> Guess {
        let share = Span::from_millis(STEP.millis() * BURST);
        if let Some(until) = self.until.get_mut(name) {
            // A clock that stepped back must not keep anybody out for longer than a full share.
            *until = (*until).clamp(now, now + share);
            if *until + STEP > now + share {
                return Guess::TooMany;
            }
            *until = *until + STEP;
            return Guess::Counted;
        }
        if self.order.len() >= ENTRIES
            && let Some(oldest) = self.order.pop_front()
        {
            self.until.remove(&oldest);
        }
        self.order.push_back(name.into());
        self.until.insert(name.into(), now + STEP);
        Guess::Counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_millis(1_800_000_000_000);

    fn address(last: u32) -> Option<IpAddr> {
        Some(IpAddr::V4((0x0a00_0000 + last).into()))
    }

    fn tables(guesses: &Guesses) -> [usize; 4] {
        let tables = guesses.0.lock().unwrap();
        let (a, p) = (&tables.addresses, &tables.prefixes);
        [a.until.len(), a.order.len(), p.until.len(), p.order.len()]
    }

    #[test] // REQ SE-1
    fn ten_thousand_bad_keys_from_one_address_are_refused_after_the_first_few() {
        let guesses = Guesses::default();
        let counted = (0..10_000)
            .filter(|n| guesses.wrong(&format!("pombo_{n:08x}"), address(1), START) == Guess::Counted);
        assert_eq!(counted.count() as u64, BURST);
        assert_eq!(tables(&guesses), [1, 1, 20, 20]);
        assert_eq!(guesses.wrong("pombo_other", address(2), START), Guess::Counted);
        assert_eq!(guesses.wrong("pombo_other", address(1), START + STEP), Guess::Counted);
        assert_eq!(guesses.wrong("pombo_other", address(1), START + STEP), Guess::TooMany);
    }

    #[test] // REQ SE-1
    fn one_key_that_many_guess_at_is_refused_to_all_of_them() {
        let guesses = Guesses::default();
        let counted = (0..1_000).filter(|n| {
            guesses.wrong(&format!("pombo_0123abcd{n:08x}"), address(*n), START) == Guess::Counted
        });
        assert_eq!(counted.count() as u64, BURST);
    }

    #[test] // REQ SE-1
    fn the_tables_never_grow_beyond_their_size() {
        let guesses = Guesses::default();
        for n in 0..20_000 {
            guesses.wrong(&format!("{n:014}"), address(n), START);
        }
        assert_eq!(tables(&guesses), [ENTRIES; 4]);
    }

    #[test]
    fn a_network_of_one_person_counts_as_one() {
        let address = |text: &str| network(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
        assert_ne!(address("10.0.0.1"), address("10.0.0.2"));
    }

    #[test]
    fn a_clock_that_steps_back_keeps_nobody_out_for_long() {
        let guesses = Guesses::default();
        for _ in 0..BURST {
            guesses.wrong("k", None, START);
        }
        assert_eq!(guesses.wrong("k", None, START), Guess::TooMany);
        let before = START - Span::from_hours(24);
        assert_eq!(guesses.wrong("k", None, before), Guess::TooMany);
        assert_eq!(guesses.wrong("k", None, before + STEP), Guess::Counted);
    }
}
