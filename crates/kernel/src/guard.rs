//! Which addresses we connect to: those of the public internet, and those that the operator opened.
//!
//! A URL is chosen by a caller, and may name, or resolve to, a machine that only we can reach. So it is the
//! resolved address that is judged, and the connection goes to that very address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// Why an address is not one of the public internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Unspecified,
    Loopback,
    Private,
    /// Shared by a carrier's customers (100.64.0.0/10).
    Shared,
    LinkLocal,
    UniqueLocal,
    /// Where a cloud tells a machine its own credentials.
    Metadata,
    Multicast,
    Broadcast,
    Documentation,
    Benchmarking,
    /// Tunnels and translations that can wrap any other address.
    Tunnel,
    Reserved,
}

impl Special {
    pub fn as_str(self) -> &'static str {
        match self {
            Special::Unspecified => "unspecified",
            Special::Loopback => "loopback",
            Special::Private => "private",
            Special::Shared => "shared",
            Special::LinkLocal => "link-local",
            Special::UniqueLocal => "unique-local",
            Special::Metadata => "cloud metadata",
            Special::Multicast => "multicast",
            Special::Broadcast => "broadcast",
            Special::Documentation => "documentation",
            Special::Benchmarking => "benchmarking",
            Special::Tunnel => "tunnel",
            Special::Reserved => "reserved",
        }
    }

    /// Opened by `allow_private`. Metadata must be named, since nobody who opens their network means it;
    /// the others belong to no single machine.
    fn opens_with_private(self) -> bool {
        !matches!(
            self,
            Special::Metadata
                | Special::Unspecified
                | Special::Multicast
                | Special::Broadcast
                | Special::Tunnel
        )
    }
}

/// The address that a packet ends at: the IPv4 address inside a mapped or translated (NAT64) one.
pub fn effective(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return IpAddr::V4(v4);
    }
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => IpAddr::V4(v4_of(high, low)),
        _ => address,
    }
}

fn v4_of(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

/// What is special about an address; none for one of the public internet.
pub fn special(address: IpAddr) -> Option<Special> {
    match effective(address) {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<Special> {
    Some(match address.octets() {
        [169, 254, 169, 254] | [169, 254, 170, 2 | 23] | [168, 63, 129, 16] => Special::Metadata,
        [100, 100, 100, 200] | [192, 0, 0, 192] => Special::Metadata,
        [0, 0, 0, 0] => Special::Unspecified,
        [0, ..] => Special::Reserved,
        [127, ..] => Special::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Special::Private,
        [100, 64..=127, ..] => Special::Shared,
        [169, 254, ..] => Special::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Special::Documentation,
        [192, 0, 0, _] => Special::Reserved,
        [192, 88, 99, _] => Special::Tunnel,
        [198, 18 | 19, ..] => Special::Benchmarking,
        [224..=239, ..] => Special::Multicast,
        [255, 255, 255, 255] => Special::Broadcast,
        [240..=255, ..] => Special::Reserved,
        _ => return None,
    })
}

/// Of IPv6 only 2000::/3 is handed out to the public, so all the rest is special, known or not.
fn special_v6(address: Ipv6Addr) -> Option<Special> {
    Some(match address.segments() {
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254 | 0x23] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            Special::Metadata
        }
        [0, 0, 0, 0, 0, 0, 0, 0] => Special::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Special::Loopback,
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, ..] => Special::Tunnel,
        [0x2002, ..] | [0x2001, 0, ..] => Special::Tunnel,
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Special::Tunnel,
        [0xfe80..=0xfebf, ..] => Special::LinkLocal,
        [0xfec0..=0xfeff, ..] => Special::Private,
        [0xfc00..=0xfdff, ..] => Special::UniqueLocal,
        [0xff00..=0xffff, ..] => Special::Multicast,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Special::Documentation,
        [0x2001, 2, 0, ..] => Special::Benchmarking,
        [0x2001, 0..=0x1ff, ..] => Special::Reserved,
        [0x2000..=0x3fff, ..] => return None,
        _ => Special::Reserved,
    })
}

/// Something that the operator opened: a host by name, or a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    Host(String),
    Network { address: IpAddr, prefix: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAllowed;

impl fmt::Display for BadAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("neither a host name nor a network; write evolution.lan, 10.1.2.3 or 10.0.0.0/8")
    }
}

impl FromStr for Allowed {
    type Err = BadAllowed;
    fn from_str(text: &str) -> Result<Allowed, BadAllowed> {
        if let Some((address, prefix)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| BadAllowed)?;
            let prefix: u8 = prefix.parse().map_err(|_| BadAllowed)?;
            return (prefix <= width(address))
                .then_some(Allowed::Network { address, prefix })
                .ok_or(BadAllowed);
        }
        if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Ok(Allowed::Network { address, prefix: width(address) });
        }
        match url::Host::parse(text) {
            Ok(url::Host::Domain(host)) => Ok(Allowed::Host(host)),
            Ok(url::Host::Ipv4(v4)) => Ok(Allowed::Network { address: v4.into(), prefix: 32 }),
            Ok(url::Host::Ipv6(v6)) => Ok(Allowed::Network { address: v6.into(), prefix: 128 }),
            Err(_) => Err(BadAllowed),
        }
    }
}

impl<'de> Deserialize<'de> for Allowed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Allowed, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Allowed {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Allowed".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "A host name, an address, or a network such as 10.0.0.0/8"})
    }
}

impl Allowed {
    fn covers(&self, host: &str, address: IpAddr) -> bool {
        match self {
            Allowed::Host(name) => name == host,
            Allowed::Network { address: network, prefix } => {
                bits(*network, *prefix).is_some_and(|network| Some(network) == bits(address, *prefix))
                    && network.is_ipv4() == address.is_ipv4()
            }
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The first `prefix` bits of an address, as a number.
fn bits(address: IpAddr, prefix: u8) -> Option<u128> {
    let number = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let rest = u32::from(width(address).checked_sub(prefix)?);
    Some(number.checked_shr(rest).unwrap_or(0))
}

/// Names that mean this machine, whoever is asked.
fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

/// What one channel may connect to.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    pub allow_private: bool,
    pub allow: Vec<Allowed>,
}

impl Guard {
    /// Lets a connection to `address` through, `host` being the lower-case name that led there.
    pub fn judge(&self, host: &str, address: IpAddr) -> Result<(), Special> {
        let Some(special) = special(address) else { return Ok(()) };
        let open = (self.allow_private && special.opens_with_private())
            || self.allow.iter().any(|a| a.covers(host, address) || a.covers(host, effective(address)));
        if open { Ok(()) } else { Err(special) }
    }

    /// Lets an address through so far as it can be judged by itself: a name is judged again when it is looked up.
    pub fn judge_url(&self, url: &url::Url) -> Result<(), Special> {
        let (host, address) = match url.host() {
            Some(url::Host::Ipv4(v4)) => (v4.to_string(), v4.into()),
            Some(url::Host::Ipv6(v6)) => (v6.to_string(), v6.into()),
            Some(url::Host::Domain(name)) if is_local(name) => (name.to_owned(), Ipv4Addr::LOCALHOST.into()),
            _ => return Ok(()),
        };
        self.judge(&host, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the guard makes of a URL's host when it is an address in whatever spelling.
    fn of_url(host: &str) -> Option<Special> {
        let url = url::Url::parse(&format!("http://{host}/")).unwrap_or_else(|e| panic!("{host}: {e}"));
        match url.host() {
            Some(url::Host::Ipv4(v4)) => special(v4.into()),
            Some(url::Host::Ipv6(v6)) => special(v6.into()),
            other => panic!("{host} is read as {other:?}, not as an address"),
        }
    }

    #[test] // REQ SE-2
    fn no_spelling_of_a_special_address_gets_through() {
        use Special::*;
        let table: &[(Special, &[&str])] = &[
            (
                Loopback,
                &[
                    "127.0.0.1",
                    "127.1",
                    "127.0.1",
                    "127.255.255.254",
                    "2130706433",
                    "0x7f000001",
                    "0x7f.1",
                    "0x7f.0x0.0x0.0x1",
                    "017700000001",
                    "0177.0.0.1",
                    "0177.0.0.01",
                    "00177.0.0.1",
                    "127.0.0.1.",
                    "%31%32%37.0.0.1",
                    "１２７.0.0.1",
                    "127。0。0。1",
                    "①②⑦.0.0.1",
                    "[::1]",
                    "[0:0:0:0:0:0:0:1]",
                    "[::ffff:127.0.0.1]",
                    "[::ffff:7f00:1]",
                    "[0:0:0:0:0:ffff:127.0.0.1]",
                    "[64:ff9b::127.0.0.1]",
                    "[64:ff9b::7f00:1]",
                ],
            ),
            (
                Private,
                &[
                    "10.0.0.1",
                    "10.255.255.255",
                    "167772161",
                    "0x0a000001",
                    "012.0.0.1",
                    "172.16.0.1",
                    "172.31.255.255",
                    "0xac100001",
                    "192.168.0.1",
                    "192.168.1",
                    "3232235521",
                    "0300.0250.0.1",
                    "[::ffff:10.0.0.1]",
                    "[::ffff:c0a8:1]",
                    "[64:ff9b::192.168.0.1]",
                    "[fec0::1]",
                ],
            ),
            (
                Metadata,
                &[
                    "169.254.169.254",
                    "2852039166",
                    "0xa9fea9fe",
                    "0251.0376.0251.0376",
                    "169.254.43518",
                    "169.16689662",
                    "[::ffff:169.254.169.254]",
                    "[::ffff:a9fe:a9fe]",
                    "[64:ff9b::a9fe:a9fe]",
                    "169.254.170.2",
                    "100.100.100.200",
                    "192.0.0.192",
                    "168.63.129.16",
                    "[fd00:ec2::254]",
                    "[fd20:ce::254]",
                ],
            ),
            (LinkLocal, &["169.254.0.1", "169.254.255.255", "[fe80::1]", "[febf::1]"]),
            (Shared, &["100.64.0.1", "100.127.255.255", "[::ffff:100.64.0.1]"]),
            (Unspecified, &["0.0.0.0", "0", "0x0", "[::]", "[::ffff:0.0.0.0]", "[64:ff9b::]"]),
            (Broadcast, &["255.255.255.255", "4294967295", "[::ffff:255.255.255.255]"]),
            (Multicast, &["224.0.0.1", "239.255.255.255", "[ff02::1]", "[ff0e::1]"]),
            (Documentation, &["192.0.2.1", "198.51.100.1", "203.0.113.1", "[2001:db8::1]", "[3fff::1]"]),
            (Benchmarking, &["198.18.0.1", "198.19.255.255", "[2001:2::1]"]),
            (UniqueLocal, &["[fc00::1]", "[fd12:3456::1]"]),
            (
                Tunnel,
                &[
                    "[::127.0.0.1]",
                    "[::10.0.0.1]",
                    "[::2]",
                    "[2002:7f00:1::]",
                    "[2002:a00:1::1]",
                    "[2002:a9fe:a9fe::]",
                    "[2001:0:7f00:1::]",
                    "[64:ff9b:1::7f00:1]",
                    "[::ffff:0:127.0.0.1]",
                    "[2001:470::5efe:7f00:1]",
                    "192.88.99.1",
                ],
            ),
            (
                Reserved,
                &["0.1.2.3", "192.0.0.8", "240.0.0.1", "[100::1]", "[2001:10::1]", "[4000::1]", "[5f00::1]"],
            ),
        ];
        let cases: usize = table.iter().map(|(_, hosts)| hosts.len()).sum();
        assert!(cases >= 60, "{cases}");
        for (expected, hosts) in table {
            for host in *hosts {
                assert_eq!(of_url(host), Some(*expected), "{host}");
            }
        }
    }

    #[test]
    fn public_addresses_are_not_special() {
        for host in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "[2606:4700::1111]",
            "[2a00:1450::1]",
            "[2001:4860:4860::8888]",
            "[::ffff:8.8.8.8]",
            "[64:ff9b::808:808]",
            "[2003::1]",
        ] {
            assert_eq!(of_url(host), None, "{host}");
        }
    }

    fn guard(allow_private: bool, allow: &[&str]) -> Guard {
        Guard { allow_private, allow: allow.iter().map(|text| text.parse().unwrap()).collect() }
    }

    fn judged(guard: &Guard, host: &str, address: &str) -> Result<(), Special> {
        guard.judge(host, address.parse().unwrap())
    }

    #[test]
    fn private_addresses_open_with_one_word_and_metadata_only_by_name() {
        let open = guard(true, &[]);
        for address in ["127.0.0.1", "10.1.2.3", "::1", "fd12::1", "169.254.1.1", "::ffff:192.168.0.1"] {
            assert_eq!(judged(&open, "x", address), Ok(()), "{address}");
        }
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fd00:ec2::254",
            "0.0.0.0",
            "224.0.0.1",
            "2002:7f00:1::",
        ] {
            assert!(judged(&open, "x", address).is_err(), "{address}");
        }
        assert_eq!(judged(&guard(false, &["169.254.169.254"]), "x", "169.254.169.254"), Ok(()));
    }

    #[test]
    fn a_list_opens_hosts_and_networks_and_nothing_beside_them() {
        let list = guard(false, &["Evolution.LAN", "10.1.0.0/16", "192.168.0.7", "fd12::/16"]);
        for (host, address, open) in [
            ("evolution.lan", "172.16.0.9", true),
            ("other.lan", "172.16.0.9", false),
            ("a.evolution.lan", "172.16.0.9", false),
            ("x", "10.1.255.255", true),
            ("x", "10.2.0.0", false),
            ("x", "::ffff:10.1.0.1", true),
            ("x", "64:ff9b::10.1.0.1", true),
            ("x", "192.168.0.7", true),
            ("x", "192.168.0.8", false),
            ("x", "fd12:1::1", true),
            ("x", "fd13::1", false),
            ("x", "8.8.8.8", true),
        ] {
            assert_eq!(judged(&list, host, address).is_ok(), open, "{host} {address}");
        }
        assert!(judged(&guard(false, &["0.0.0.0/0"]), "x", "10.0.0.1").is_ok());
        assert!(judged(&guard(false, &["0.0.0.0/0"]), "x", "fd00::1").is_err());
    }

    #[test]
    fn what_is_neither_host_nor_network_is_refused() {
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "a b", "http://x/", "x/8", "10.0.0.0/-1"] {
            assert_eq!(bad.parse::<Allowed>(), Err(BadAllowed), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn wrapping_an_address_never_makes_it_more_welcome(number in any::<u32>()) {
            let v4 = Ipv4Addr::from_bits(number);
            let plain = special(v4.into());
            let nat64 = Ipv6Addr::from_bits((0x64_ff9b << 96) | u128::from(number));
            prop_assert_eq!(special(v4.to_ipv6_mapped().into()), plain);
            prop_assert_eq!(special(nat64.into()), plain);
            prop_assert!(special(Ipv6Addr::from_bits(u128::from(number)).into()).is_some());
            prop_assert!(special(Ipv6Addr::from_bits((0x2002 << 112) | (u128::from(number) << 80)).into()).is_some());
        }

        #[test]
        fn only_one_eighth_of_ipv6_is_public(number in any::<u128>()) {
            let address = Ipv6Addr::from_bits(number);
            prop_assert!(number >> 125 == 1 || effective(address.into()).is_ipv4() || special(address.into()).is_some());
        }
    }

    #[test] // REQ SE-2
    fn a_url_is_judged_by_what_it_says_already() {
        let url = |text: &str| url::Url::parse(text).unwrap();
        let closed = Guard::default();
        for bad in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://[::1]:8080/",
            "https://10.1.2.3/hook",
            "http://localhost/",
            "http://a.localhost./",
            "http://[::ffff:169.254.169.254]/",
        ] {
            assert!(closed.judge_url(&url(bad)).is_err(), "{bad}");
        }
        for good in ["https://crm.example/hook", "https://8.8.8.8/", "https://localhost.example/"] {
            assert_eq!(closed.judge_url(&url(good)), Ok(()), "{good}");
        }
        let open = Guard { allow_private: true, ..Guard::default() };
        assert_eq!(open.judge_url(&url("http://localhost:9/")), Ok(()));
        assert_eq!(open.judge_url(&url("http://169.254.169.254/")), Err(Special::Metadata));
    }
}
