//! Anchors: where the audit chain ended at a time, signed, so that a copy kept elsewhere shows if it was cut off since.
//!
//! The chain alone cannot show that its newest blocks are gone, and whoever can write to the database can seal a chain
//! of their own. Neither agrees with an anchor that lies where they cannot write.

use pombo_kernel::message::Actor;
use pombo_kernel::name::Tenant;
use pombo_kernel::time::Time;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::audit::{Break, Event, Tip};
use crate::shelf::{Doc, Expect, Leaf, Pick, Shelf, Shelve, Wanted};
use crate::transition;

/// The end of the chain, as somebody with the key has seen it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// How many blocks the chain had.
    pub sequence: u64,
    /// How many records.
    pub position: u64,
    /// The hash of its last block, in hexadecimal digits.
    pub hash: Hex<32>,
    pub at: Time,
    /// The public key, Ed25519.
    pub key: Hex<32>,
    pub signature: Hex<64>,
}

/// Bytes that are written in hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hex<const N: usize>(pub [u8; N]);

impl<const N: usize> std::fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::moving::hex(&self.0))
    }
}

impl<const N: usize> std::str::FromStr for Hex<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Hex<N>, String> {
        let mut bytes = [0; N];
        let pairs = text.as_bytes().chunks(2).map(|pair| {
            let pair =
                std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
            pair.filter(|pair| pair.len() == 2).and_then(|pair| u8::from_str_radix(pair, 16).ok())
        });
        let read = pairs.collect::<Option<Vec<u8>>>().filter(|read| read.len() == N);
        bytes.copy_from_slice(&read.ok_or_else(|| format!("not {} hexadecimal digits", N * 2))?);
        Ok(Hex(bytes))
    }
}

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Hex<N>, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What is signed. The bytes are fixed from the first release on; see `docs/reference/audit.md`.
pub fn statement(tip: &Tip, at: Time) -> Vec<u8> {
    let mut said = b"pombo anchor 1\0".to_vec();
    said.extend(tip.sequence.to_le_bytes());
    said.extend(tip.position.to_le_bytes());
    said.extend(tip.hash);
    said.extend(at.millis().to_le_bytes());
    said
}

impl Anchor {
    /// Where the chain ended.
    pub fn tip(&self) -> Tip {
        Tip { sequence: self.sequence, position: self.position, hash: self.hash.0 }
    }

    /// A wish to put it on the shelf as that one, counted from 1, unless somebody has put another there.
    pub fn put(&self, number: u64, by: &Actor) -> Shelve {
        let body = serde_json::to_value(self).unwrap_or_default();
        let tenant = Tenant::default();
        Shelve {
            shelf: Shelf::Anchor,
            id: format!("{number:020}"),
            expect: Expect::Nothing,
            leaf: Some(Leaf {
                order: i64::try_from(number).unwrap_or(i64::MAX),
                topic: None,
                due: None,
                body: body.to_string(),
            }),
            // It concerns everybody.
            record: Some(transition::of_everybody(Event::Anchored, by, &body, self.at)),
            tenant,
        }
    }
}

/// Which anchors come before that one, the newest first; the newest of all if none is named.
pub fn before(number: Option<u64>, limit: usize) -> Wanted {
    let after = number.map(|number| (i64::try_from(number).unwrap_or(i64::MAX), format!("{number:020}")));
    Wanted { shelf: Shelf::Anchor, tenant: Some(Tenant::default()), pick: Pick::All { after }, limit }
}

/// An anchor and its number; nothing if the document is something else.
pub fn read(doc: &Doc) -> Option<(u64, Anchor)> {
    let number = doc.id.parse().ok()?;
    serde_json::from_str(&doc.leaf.body).ok().map(|anchor| (number, anchor))
}

/// Where a broken chain is noted by whoever was to sign it.
const BROKEN: &str = "broken";

/// A wish to note that the chain does not hold at that place, or that it does.
pub fn note(broken: Option<&Break>, now: Time) -> Shelve {
    let said =
        broken.map(|broken| serde_json::json!({"block": broken.block, "what": broken.what, "at": now}));
    Shelve {
        shelf: Shelf::Anchor,
        tenant: Tenant::default(),
        id: BROKEN.to_owned(),
        expect: Expect::Any,
        leaf: said.map(|said| Leaf { order: -1, topic: None, due: None, body: said.to_string() }),
        record: None,
    }
}

/// What was noted, for people; nothing if the chain held when somebody last looked.
pub async fn broken(store: &dyn crate::Store) -> Result<Option<String>, StoreError> {
    let doc = store.doc(Shelf::Anchor, Tenant::default(), BROKEN.to_owned()).await?;
    let said = doc.and_then(|doc| serde_json::from_str::<serde_json::Value>(&doc.leaf.body).ok());
    Ok(said
        .map(|said| format!("audit block {}: {}", said["block"], said["what"].as_str().unwrap_or_default())))
}

/// What the signed places of a chain say of it: a check of the chain that stops at each of them.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// By their place, the last first.
    left: Vec<Mark>,
    pub held: u64,
}

/// A place that the chain must go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub tip: Tip,
    /// What it is, for people.
    pub name: String,
}

impl Marks {
    pub fn add(&mut self, mark: Mark) {
        let after = self.left.partition_point(|other| other.tip.sequence > mark.tip.sequence);
        self.left.insert(after, mark);
    }

    /// How many blocks there are up to the next place, from there on.
    pub fn until(&self, tip: &Tip) -> usize {
        let Some(next) = self.left.last() else { return usize::MAX };
        usize::try_from(next.tip.sequence.saturating_sub(tip.sequence)).unwrap_or(usize::MAX)
    }

    /// Holds the places that were reached against the chain, which holds up to there; what is wrong, if something is.
    pub fn reached(&mut self, tip: &Tip) -> Vec<String> {
        let mut wrong = Vec::new();
        while let Some(mark) = self.left.pop_if(|mark| mark.tip.sequence <= tip.sequence) {
            match mark.tip == *tip {
                true => self.held += 1,
                false => wrong.push(format!(
                    "{}: the chain up to block {} is not the one that was there",
                    mark.name, mark.tip.sequence
                )),
            }
        }
        wrong
    }

    /// What is wrong with a chain that ends there.
    pub fn ended(&mut self, tip: &Tip) -> Vec<String> {
        let beyond = self.left.drain(..).rev();
        let cut = |mark: Mark| {
            let (blocks, records) =
                (mark.tip.sequence - tip.sequence, mark.tip.position.abs_diff(tip.position));
            format!(
                "{}: the chain ends before it: {blocks} blocks with {records} records were cut off",
                mark.name
            )
        };
        beyond.map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tip(sequence: u64, hash: u8) -> Tip {
        Tip { sequence, position: sequence * 3, hash: [hash; 32] }
    }

    fn marks(places: &[(u64, u8)]) -> Marks {
        let mark =
            |(sequence, hash): &(u64, u8)| Mark { tip: tip(*sequence, *hash), name: format!("m{sequence}") };
        let mut marks = Marks::default();
        places.iter().map(mark).for_each(|mark| marks.add(mark));
        marks
    }

    #[test]
    fn bytes_are_written_in_hexadecimal_digits_and_read_back() {
        let hex = Hex([0, 1, 0xab, 0xff]);
        assert_eq!(hex.to_string(), "0001abff");
        assert_eq!("0001ABff".parse(), Ok(hex));
        for bad in ["", "0001abf", "0001abff00", "0001abfg", "+001abff", "é001abf"] {
            assert_eq!(bad.parse::<Hex<4>>(), Err("not 8 hexadecimal digits".to_owned()), "{bad}");
        }
    }

    #[test] // REQ AU-1
    fn a_chain_that_goes_through_every_mark_has_nothing_wrong() {
        let mut marks = marks(&[(7, 7), (3, 3), (3, 3)]);
        assert_eq!(marks.until(&tip(0, 0)), 3);
        assert_eq!(marks.reached(&tip(2, 9)), [""; 0]);
        assert_eq!(marks.reached(&tip(3, 3)), [""; 0]);
        assert_eq!(marks.until(&tip(3, 3)), 4);
        assert_eq!(marks.reached(&tip(7, 7)), [""; 0]);
        assert_eq!((marks.until(&tip(7, 7)), marks.held), (usize::MAX, 3));
        assert_eq!(marks.ended(&tip(9, 9)), [""; 0]);
    }

    #[test] // REQ AU-1
    fn another_chain_and_one_that_was_cut_off_are_told_by_their_marks() {
        let mut marks = marks(&[(3, 3), (7, 7)]);
        let wrong = marks.reached(&tip(3, 4));
        assert_eq!(wrong, ["m3: the chain up to block 3 is not the one that was there"]);
        let cut = marks.ended(&tip(5, 5));
        assert_eq!(cut, ["m7: the chain ends before it: 2 blocks with 6 records were cut off"]);
        assert_eq!(marks.held, 0);
    }
}
