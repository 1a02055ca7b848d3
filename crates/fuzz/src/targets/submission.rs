//! A mail client at our door: whatever it says, and in whatever pieces it arrives, it is told the same.

use pombo_kernel::dice::Dice;
use pombo_web::smtp::fuzz::{HELD_MAX, dialogue};

use crate::Sign;
use crate::change::pieces;

pub(super) const WORDS: &[&str] = &[
    "EHLO a\r\n",
    "HELO a\r\n",
    "STARTTLS\r\n",
    "AUTH PLAIN AGVtYWlsAGdvb2Q=\r\n",
    "AUTH LOGIN\r\nZW1haWw=\r\nZ29vZA==\r\n",
    "AUTH PLAIN\r\n",
    "*\r\n",
    "MAIL FROM:<a@x.example> SIZE=500 BODY=8BITMIME\r\n",
    "MAIL FROM:<>\r\n",
    "RCPT TO:<b@x.example>\r\n",
    "RCPT TO:<c@x.example> NOTIFY=NEVER\r\n",
    "DATA\r\n",
    "Subject: s\r\n\r\nhi\r\n.\r\n",
    "\r\n.\r\n",
    "\n.\n",
    "\r.\r",
    "..",
    "RSET\r\n",
    "NOOP\r\n",
    "QUIT\r\n",
];

pub(super) fn run(bytes: &[u8]) -> Sign {
    let Some((encryption, said)) = bytes.split_first().map(|(first, rest)| (*first == b'1', rest)) else {
        return Sign(0);
    };
    // Whoever asks for encryption has to begin anew: what came along in the same piece counts for nothing, so that
    // pieces make a difference there, as they should.
    let cuts = match encryption {
        true => vec![said],
        false => pieces(said, &mut Dice::seeded(Sign::of(bytes).0)),
    };
    let (whole, cut) = (dialogue(&[said], encryption), dialogue(&cuts, encryption));
    assert_eq!(
        (whole.said.escape_ascii().to_string(), &whole.letters, whole.over),
        (cut.said.escape_ascii().to_string(), &cut.letters, cut.over),
        "cut into pieces"
    );
    let longest = cuts.iter().map(|piece| piece.len()).max().unwrap_or_default();
    assert!(cut.most <= HELD_MAX + longest, "{} bytes were held", cut.most);
    let replies = whole.said.split_inclusive(|byte| *byte == b'\n');
    let mut codes = Vec::new();
    for reply in replies {
        assert!(reply.ends_with(b"\r\n") && reply.len() <= 512, "{}", reply.escape_ascii());
        assert!(reply[..3].iter().all(u8::is_ascii_digit), "{}", reply.escape_ascii());
        if reply[3] == b' ' {
            codes.push([reply[0], reply[1], reply[2]]);
        }
    }
    assert!(whole.letters.is_empty() || codes.contains(b"235"), "a mail was taken of somebody unknown");
    for (_, to, mail) in &whole.letters {
        assert!((1..=3).contains(&to.len()) && mail.len() <= HELD_MAX && !mail.contains(&0));
    }
    codes.truncate(8);
    Sign::of((encryption, codes, whole.letters.len().min(2)))
}
