//! Addresses: of web services, of mailboxes, of phones, of machines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pombo_kernel::content::{check_recipient, mailbox, web_address};
use pombo_kernel::guard::{Allowed, Guard, effective, special};
use pombo_kernel::kind::ChannelKind;
use pombo_kernel::listing::address;
use pombo_kernel::mask;
use pombo_kernel::suppression::Family;

use super::text;
use crate::Sign;

pub(super) const WORDS: &[&str] = &[
    "http://",
    "https://",
    "127.0.0.1",
    "0x7f.1",
    "0177.0.0.1",
    "2130706433",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "169.254.169.254",
    "localhost",
    ".localhost.",
    "user:password@",
    ":0",
    ":443",
    "/path?query#fragment",
    "ana@clinica.example",
    "Ana <ana@clinica.example>",
    "\"ana silva\"@x.example",
    "@s.whatsapp.net",
    "@g.us",
    "+55 (11) 98765-4321",
    "011 98765-4321",
    "xn--",
    "\u{ff0e}",
    "\u{2460}",
    "%31",
];

pub(super) fn run(bytes: &[u8]) -> Sign {
    let words = text(bytes);
    let url = of_the_web(&words);
    let mut signs = vec![url];
    for kind in ChannelKind::ALL {
        let problems = check_recipient(kind, &words);
        assert!(problems.iter().all(|it| !it.reason.is_empty() && !it.hint.is_empty()), "{problems:?}");
        let fits = problems.is_empty();
        if fits && kind != ChannelKind::Null {
            assert!(
                !words.contains(['\r', '\n', '\0']),
                "{kind}: a break in an address begins something else"
            );
        }
        signs.push(u8::from(fits));
    }
    if let Some(bare) = mailbox(&words) {
        assert_eq!(mailbox(bare), Some(bare));
        assert!(bare.len() <= 254 && bare.matches('@').count() == 1);
    }
    for family in [Family::Email, Family::Whatsapp] {
        if let Some(one) = family.normalised(&words) {
            let again = family.normalised(&one).unwrap_or_else(|| one.clone());
            assert_eq!(again, one, "{family:?}: the one form is the one form");
            let person = family.person(&one);
            assert!(!person.is_empty());
        }
        let listed = address(family, &words);
        if let Ok(one) = &listed {
            assert_eq!(address(family, one).as_ref(), Ok(one));
        }
        signs.push(u8::from(listed.is_ok()));
    }
    for kind in [None, Some(ChannelKind::Smtp), Some(ChannelKind::Evolution), Some(ChannelKind::Webhook)] {
        let hidden = mask::recipient(kind, &words);
        assert!(mask::is_hidden(&hidden) || words.is_empty(), "{words:?} is shown as {hidden:?}");
    }
    machines(bytes, &words);
    Sign::of(signs)
}

/// A URL that is taken stays the same when it is written down, and leads to no machine that the guard keeps shut.
fn of_the_web(words: &str) -> u8 {
    let Ok(url) = web_address(words) else { return 0 };
    assert!(matches!(url.scheme(), "http" | "https"));
    assert!(url.username().is_empty() && url.password().is_none() && url.host_str().is_some());
    assert_eq!(url::Url::parse(url.as_str()).ok().as_ref(), Some(&url), "written down, it is the same");
    let address: Option<IpAddr> = match url.host() {
        Some(url::Host::Ipv4(v4)) => Some(v4.into()),
        Some(url::Host::Ipv6(v6)) => Some(v6.into()),
        _ => None,
    };
    let judged = Guard::default().judge_url(&url);
    if let Some(address) = address {
        assert_eq!(judged.err(), special(address), "{url}");
    }
    1 + u8::from(judged.is_ok()) + 2 * u8::from(address.is_some())
}

/// However an IPv4 address is wrapped, what is special about it stays so.
fn machines(bytes: &[u8], words: &str) {
    if let Some(four) = bytes.first_chunk::<4>() {
        let v4 = Ipv4Addr::from(*four);
        let [a, b, c, d] = *four;
        let translated = Ipv6Addr::from([0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]);
        for wrapped in [v4.to_ipv6_mapped(), translated] {
            assert_eq!(effective(wrapped.into()), IpAddr::V4(v4));
            assert_eq!(special(wrapped.into()), special(v4.into()), "{wrapped}");
        }
        let tunnel = Ipv6Addr::from([0x20, 0x02, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!(special(tunnel.into()).is_some(), "{tunnel}");
        assert!(special(v4.to_ipv6_compatible().into()).is_some());
        // Private is opened by one switch; credentials of a cloud are not.
        let open = Guard { allow_private: true, allow: Vec::new() };
        let metadata = v4 == Ipv4Addr::new(169, 254, 169, 254);
        assert!(!metadata || open.judge("x", v4.into()).is_err());
    }
    if let Ok(Allowed::Network { address, prefix }) = words.parse::<Allowed>() {
        let again = format!("{address}/{prefix}").parse::<Allowed>();
        assert_eq!(again, Ok(Allowed::Network { address, prefix }));
    }
}
