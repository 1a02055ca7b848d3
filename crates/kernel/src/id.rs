//! Message ids: time-ordered, 128 bits, a UUID of version 7.
//!
//! The upper part of an id is itself a unique 63-bit number, the message's *key*. Stores use it as their row
//! id, so that finding a message by its public id needs no index, and reading by key is reading by age.

use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::dice::Dice;
use crate::time::Time;

/// 2020-01-01T00:00:00Z, where keys start counting.
const EPOCH_MS: i64 = 1_577_836_800_000;
const SEQUENCE_BITS: u32 = 21;
const NONCE_BITS: u32 = 53;
/// Processes that share a store count in the lower part of the sequence, each with a slot of its own above it.
const COUNT_BITS: u32 = 14;

/// Hashes keys and ids, which we give out ourselves: nobody can choose many that collide, so a few multiplications do.
pub type ByKey = BuildHasherDefault<KeyHasher>;

#[derive(Clone, Copy, Debug, Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        // Maps look at the lowest bits first, which a product mixes least.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = self.0.wrapping_add(word).wrapping_mul(0xf135_7aea_2e62_a9c5);
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word.cast_unsigned());
    }

    #[allow(clippy::cast_possible_truncation)]
    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
        self.write_u64((word >> 64) as u64);
    }
}

/// The id of a message. Shown as `msg_` and 32 hex digits; its UUID form is accepted as well.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(u128);

/// The first 63 bits of information in an id: milliseconds since 2020 and a sequence within them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub i64);

impl MessageKey {
    /// The smallest key that a message accepted at `time` can have.
    pub fn at(time: Time) -> MessageKey {
        let ms = time.millis().saturating_sub(EPOCH_MS).clamp(0, (1 << 42) - 1);
        MessageKey(ms << SEQUENCE_BITS)
    }

    pub fn time(self) -> Time {
        Time::from_millis((self.0 >> SEQUENCE_BITS) + EPOCH_MS)
    }
}

impl MessageId {
    /// Puts an id together from its key and 53 bits that make it hard to guess.
    #[allow(clippy::cast_sign_loss)]
    pub fn new(key: MessageKey, nonce: i64) -> MessageId {
        let ms = (key.time().millis() as u128) & ((1 << 48) - 1);
        let sequence = (key.0 as u128) & ((1 << SEQUENCE_BITS) - 1);
        let rand_a = sequence >> 9;
        let rand_b = ((sequence & 0x1FF) << NONCE_BITS) | ((nonce as u128) & ((1 << NONCE_BITS) - 1));
        MessageId((ms << 80) | (0x7 << 76) | (rand_a << 64) | (0b10 << 62) | rand_b)
    }

    /// The id with these bits, if Pombo could have made it.
    pub fn from_bits(bits: u128) -> Option<MessageId> {
        let id = MessageId(bits);
        (MessageId::new(id.key(), id.nonce()) == id).then_some(id)
    }

    #[allow(clippy::cast_possible_truncation)]
    pub fn key(self) -> MessageKey {
        let ms = (self.0 >> 80) as i64 - EPOCH_MS;
        let rand_a = ((self.0 >> 64) & 0xFFF) as i64;
        let rand_b_head = ((self.0 >> NONCE_BITS) & 0x1FF) as i64;
        MessageKey((ms << SEQUENCE_BITS) | (rand_a << 9) | rand_b_head)
    }

    #[allow(clippy::cast_possible_truncation)]
    pub fn nonce(self) -> i64 {
        (self.0 & ((1 << NONCE_BITS) - 1)) as i64
    }

    pub fn bits(self) -> u128 {
        self.0
    }

    /// The same id, written as a UUID.
    pub fn uuid(self) -> String {
        let hex = format!("{:032x}", self.0);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "msg_{:032x}", self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message id; it looks like msg_ and 32 hex digits, or a UUID")]
pub struct BadId;

impl FromStr for MessageId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<MessageId, BadId> {
        let hex = match text.strip_prefix("msg_") {
            Some(hex) => hex.to_owned(),
            None => {
                let dashed = text.len() == 36 && [8, 13, 18, 23].iter().all(|i| text.as_bytes()[*i] == b'-');
                if !dashed {
                    return Err(BadId);
                }
                text.replace('-', "")
            }
        };
        if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BadId);
        }
        u128::from_str_radix(&hex, 16).ok().and_then(MessageId::from_bits).ok_or(BadId)
    }
}

impl Serialize for MessageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MessageId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A part of all keys that one process makes, so that others never make the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(i16);

impl Slot {
    /// How many processes can make ids for one store at the same time.
    pub const COUNT: i16 = 127;

    pub fn new(number: i16) -> Option<Slot> {
        (0..Slot::COUNT).contains(&number).then_some(Slot(number))
    }

    pub fn number(self) -> i16 {
        self.0
    }

    /// The first key of this slot that is `key` or more.
    fn from(self, key: MessageKey) -> MessageKey {
        let slot = i64::from(self.0) << COUNT_BITS;
        let slots = (1 << SEQUENCE_BITS) - 1;
        let first = (key.0 & !slots) | slot;
        if key.0 <= first {
            MessageKey(first)
        } else if key.0 >> COUNT_BITS == first >> COUNT_BITS {
            key
        } else {
            MessageKey(first + (1 << SEQUENCE_BITS))
        }
    }
}

/// Makes ids whose keys only ever rise, even when the clock steps back.
#[derive(Clone, Debug)]
pub struct IdMaker {
    last: MessageKey,
    slot: Option<Slot>,
    dice: Dice,
}

impl IdMaker {
    /// `last` is the highest key ever given out.
    pub fn after(last: MessageKey, dice: Dice) -> IdMaker {
        IdMaker { last, slot: None, dice }
    }

    /// Makes only keys of that slot.
    pub fn within(self, slot: Slot) -> IdMaker {
        IdMaker { slot: Some(slot), ..self }
    }

    #[allow(clippy::cast_possible_wrap)]
    pub fn next(&mut self, now: Time) -> MessageId {
        let key = MessageKey::at(now).max(MessageKey(self.last.0 + 1));
        self.last = self.slot.map_or(key, |slot| slot.from(key));
        MessageId::new(self.last, (self.dice.next_u64() >> (64 - NONCE_BITS)) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_survive_both_written_forms(ms in 0i64..(1 << 42), sequence in 0i64..(1 << 21), nonce in 0i64..(1 << 53)) {
            let key = MessageKey((ms << SEQUENCE_BITS) | sequence);
            let id = MessageId::new(key, nonce);
            prop_assert_eq!((id.key(), id.nonce()), (key, nonce));
            prop_assert_eq!(id.to_string().parse::<MessageId>(), Ok(id));
            prop_assert_eq!(id.uuid().parse::<MessageId>(), Ok(id));
            prop_assert_eq!(key.time(), Time::from_millis(ms + EPOCH_MS));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = text.parse::<MessageId>();
        }
    }

    #[test]
    fn any_time_has_a_key_however_far_from_ours_it_is() {
        assert_eq!(MessageKey::at(Time::from_millis(i64::MIN)), MessageKey(0));
        assert_eq!(MessageKey::at(Time::from_millis(EPOCH_MS - 1)), MessageKey(0));
        assert_eq!(MessageKey::at(Time::from_millis(i64::MAX)), MessageKey(((1 << 42) - 1) << SEQUENCE_BITS));
    }

    #[test]
    fn keys_rise_when_the_clock_steps_back() {
        let mut maker = IdMaker::after(MessageKey(0), Dice::seeded(1));
        let noon = Time::from_millis(1_800_000_000_000);
        let first = maker.next(noon);
        let second = maker.next(Time::from_millis(noon.millis() - 3_600_000));
        assert!(second > first && second.key() > first.key());
    }

    #[test]
    fn slots_never_make_the_same_key_however_many_they_make_in_a_millisecond() {
        let noon = Time::from_millis(1_800_000_000_000);
        let maker = |slot| IdMaker::after(MessageKey(0), Dice::seeded(1)).within(Slot::new(slot).unwrap());
        let mut seen = std::collections::HashSet::new();
        for slot in [0, 1, 126] {
            let mut maker = maker(slot);
            let mut last = MessageKey(0);
            for _ in 0..40_000 {
                let key = maker.next(noon).key();
                assert!(key > last && key.0 >> COUNT_BITS & 127 == i64::from(slot));
                assert!(key.time() < noon + crate::time::Span::from_millis(3));
                assert!(seen.insert(key));
                last = key;
            }
        }
        assert_eq!(Slot::new(127), None);
    }

    #[test]
    fn a_uuid_of_another_version_is_not_ours() {
        assert_eq!("3f2504e0-4f89-41d3-9a0c-0305e82c3301".parse::<MessageId>(), Err(BadId));
    }
}
