//! What a path makes the sink do.

use std::borrow::Cow;

use http::StatusCode;

/// Whether a request that gets no answer was taken all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Accept,
    Status(StatusCode),
    Flaky { fail: u64 },
    Random { ok: u64 },
    Slow { ms: u64 },
    Rate { retry_after: u64 },
    Reset(Taken),
    Hang(Taken),
    Big(StatusCode),
}

impl Script {
    pub(super) fn read(path: &str, query: &str) -> Option<Script> {
        let number = |name: &str, default: u64| match parameter(query, name) {
            None => Some(default),
            Some(text) => text.parse().ok(),
        };
        let status = |number: u64| StatusCode::from_u16(u16::try_from(number).ok()?).ok();
        let taken = || Some(if number("taken", 0)? == 0 { Taken::No } else { Taken::Yes });
        Some(match path.trim_end_matches('/') {
            "" | "/ok" => Script::Accept,
            "/gone" => Script::Status(StatusCode::GONE),
            "/flaky" => Script::Flaky { fail: number("fail", 1)? },
            "/random" => Script::Random { ok: number("ok", 50)? },
            "/slow" => Script::Slow { ms: number("ms", 1000)? },
            "/rate" => Script::Rate { retry_after: number("retry_after", 1)? },
            "/reset" => Script::Reset(taken()?),
            "/hang" => Script::Hang(taken()?),
            "/big" => Script::Big(status(number("status", 500)?)?),
            other => Script::Status(
                status(other.strip_prefix("/status/")?.parse().ok()?).filter(|s| s.as_u16() >= 200)?,
            ),
        })
    }
}

pub(super) fn parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_its_query_name_a_script() {
        for (path, query, expected) in [
            ("/", "", Some(Script::Accept)),
            ("/ok", "x=1", Some(Script::Accept)),
            ("/status/503", "", Some(Script::Status(StatusCode::SERVICE_UNAVAILABLE))),
            ("/gone", "", Some(Script::Status(StatusCode::GONE))),
            ("/flaky", "fail=2", Some(Script::Flaky { fail: 2 })),
            ("/random", "ok=70", Some(Script::Random { ok: 70 })),
            ("/slow", "ms=5", Some(Script::Slow { ms: 5 })),
            ("/rate", "", Some(Script::Rate { retry_after: 1 })),
            ("/reset", "taken=1", Some(Script::Reset(Taken::Yes))),
            ("/hang", "", Some(Script::Hang(Taken::No))),
            ("/big", "status=200", Some(Script::Big(StatusCode::OK))),
            ("/status/99", "", None),
            ("/status/100", "", None),
            ("/status/x", "", None),
            ("/slow", "ms=soon", None),
            ("/nonsense", "", None),
        ] {
            assert_eq!(Script::read(path, query), expected, "{path}?{query}");
        }
    }
}
