//! Input made of other input: what stands between reading it whole and reading it wrong is often one byte.

use pombo_kernel::dice::Dice;

/// Numbers at which programs change their minds.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999999",
    "1e999",
    "0.5",
    "1.7976931348623157e308",
];

/// Bytes and characters that end, begin or escape something somewhere.
const MARKS: &[&[u8]] = &[
    b"\0",
    b"\r\n",
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b"\"",
    b"'",
    b"\\",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b">",
    b"&",
    b";",
    b",",
    b":",
    b"=",
    b"%",
    b"/",
    b"@",
    b".",
    b"\r\n.\r\n",
    b"\xe2\x80\xae",
    b"\xf0\x9f\x95\x8a",
    b"\\ud800",
];

/// A few changes, one after the other, of the first input; the second is there to take parts of.
pub fn changed(input: &[u8], other: &[u8], words: &[&str], bytes_max: usize, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + dice.below(4) {
        change(&mut bytes, other, words, dice);
        bytes.truncate(bytes_max);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], words: &[&str], dice: &mut Dice) {
    let at = place(bytes.len(), dice);
    match dice.below(12) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = low_byte(dice);
            }
        }
        2 => insert(bytes, at, pick(MARKS, dice)),
        3 | 4 if !words.is_empty() => insert(bytes, at, pick(words, dice).as_bytes()),
        5 => {
            let range = stretch(bytes.len(), at, dice);
            bytes.drain(range);
        }
        6 => {
            let part = bytes[stretch(bytes.len(), at, dice)].to_vec();
            insert(bytes, at, &part);
        }
        // Much of the same: whatever is not bounded shows.
        7 => {
            let part = bytes[stretch(bytes.len(), at, dice)].to_vec();
            let times = 1 << dice.below(8);
            insert(bytes, at, &part.repeat(times));
        }
        8 => {
            let from = place(other.len(), dice);
            insert(bytes, at, &other[stretch(other.len(), from, dice)]);
        }
        9 => {
            bytes.truncate(at);
            bytes.extend_from_slice(&other[place(other.len(), dice)..]);
        }
        10 => renumber(bytes, at, dice),
        _ => bytes.truncate(at),
    }
}

/// Puts a remarkable number in the place of the first one from there on.
fn renumber(bytes: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    let number = pick(NUMBERS, dice).as_bytes();
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else {
        return insert(bytes, at, number);
    };
    let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(from..from + digits, number.iter().copied());
}

fn insert(bytes: &mut Vec<u8>, at: usize, part: &[u8]) {
    bytes.splice(at..at, part.iter().copied());
}

/// Somewhere from the beginning to the end, both included.
fn place(len: usize, dice: &mut Dice) -> usize {
    below(len + 1, dice)
}

/// From there on, a few bytes or many.
fn stretch(len: usize, at: usize, dice: &mut Dice) -> std::ops::Range<usize> {
    let most = if dice.below(3) == 0 { len } else { 16 };
    at..len.min(at + below(most + 1, dice))
}

fn below(bound: usize, dice: &mut Dice) -> usize {
    usize::try_from(dice.below(bound as u64)).unwrap_or_default()
}

fn low_byte(dice: &mut Dice) -> u8 {
    dice.next_u64().to_le_bytes()[0]
}

fn pick<'a, T: ?Sized>(list: &[&'a T], dice: &mut Dice) -> &'a T {
    list[below(list.len(), dice)]
}

/// The bytes cut into pieces as the dice fall: mostly small ones, some empty.
pub fn pieces<'a>(mut bytes: &'a [u8], dice: &mut Dice) -> Vec<&'a [u8]> {
    let mut cut = Vec::new();
    while !bytes.is_empty() {
        let most = [1, 7, 64, 4_096][below(4, dice)];
        let (piece, rest) = bytes.split_at(below(most + 1, dice).min(bytes.len()));
        cut.push(piece);
        bytes = rest;
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_dice_make_the_same_changes_within_bounds() {
        let make = |seed| {
            let mut dice = Dice::seeded(seed);
            let mut input = b"{\"a\": 17}".to_vec();
            let mut all = Vec::new();
            for _ in 0..500 {
                input = changed(&input, b"<x y='1'/>", &["word"], 300, &mut dice);
                assert!(input.len() <= 300);
                all.push(input.clone());
            }
            all
        };
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }

    #[test]
    fn pieces_are_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5_000).collect();
        for seed in 0..50 {
            let cut = pieces(&bytes, &mut Dice::seeded(seed));
            assert!(cut.len() > 1);
            assert_eq!(cut.concat(), bytes);
        }
    }

    #[test]
    fn nothing_at_all_can_be_changed_too() {
        let mut dice = Dice::seeded(3);
        let some = (0..200).filter(|_| !changed(b"", b"", &["word"], 100, &mut dice).is_empty()).count();
        assert!(some > 50, "{some}");
    }
}
