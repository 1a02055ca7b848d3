//! Waits that providers ask for. Whatever they say, nobody waits longer than the policy allows, nor less.

use pombo_kernel::backoff;
use pombo_kernel::dice::Dice;
use pombo_kernel::hint::{greylist_wait, hint};
use pombo_kernel::policy::{Policy, Profile};

use super::house::NOW;
use super::text;
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "retry-after: ",
    "Retry-After: Sun, 06 Nov 2094 08:49:37 GMT\n",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 2094",
    "ratelimit: \"default\";r=0;t=30\n",
    "ratelimit-reset: ",
    "ratelimit-remaining: 0\n",
    "x-ratelimit-reset: 1900000000\n",
    "x-ratelimit-remaining: 1\n",
    "try again in 300 seconds",
    "come back in 00:05:00",
    "aguarde 5 minutos e 10 segundos",
    ";t=",
];

pub(super) fn run(bytes: &[u8]) -> Sign {
    let said = text(bytes);
    let headers: Vec<(String, String)> = said
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let asked = hint(&headers, NOW);
    // Neither the case of names nor headers that say nothing of it change what is asked.
    let mut others = vec![("content-type".to_owned(), "text/plain".to_owned())];
    others.extend(
        headers.iter().map(|(name, value)| (format!(" {} ", name.to_ascii_uppercase()), value.clone())),
    );
    assert_eq!(hint(&others, NOW), asked);
    let greylisted = greylist_wait(&said);
    for hint in [asked, greylisted, None] {
        for name in ["smtp", "whatsapp", "webhook", "resend", "claims"] {
            let policy = Policy::built_in(name, Profile::Production).unwrap();
            let (least, most) = backoff::bounds(&policy, 1);
            let wait = backoff::wait(&policy, 1, hint, &mut Dice::seeded(1)).delay;
            assert!(wait >= least && wait <= most.max(policy.max_hint), "{name}: {hint:?} made it {wait}");
        }
    }
    let size = |span: Option<pombo_kernel::time::Span>| span.map(|span| span.millis().checked_ilog2());
    Sign::of((size(asked), size(greylisted)))
}
