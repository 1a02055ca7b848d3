//! What is to be played, as the address of the page has it: said completely, or what is wrong with it.

use http::Uri;
use pombo_kernel::policy::Policy;
use pombo_kernel::rehearsal::{Scenario, Trouble};
use pombo_kernel::time::Span;

use crate::dash::form::Form;
use crate::dash::policies;
use crate::dash::visit::Visit;
use crate::problem::{Code, FieldError, Problem};

/// What a policy can be tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Published,
    Down,
    Flapping,
    Limit,
    History,
}

impl Way {
    pub(super) const ALL: [Way; 5] = [Way::Published, Way::Down, Way::Flapping, Way::Limit, Way::History];

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Published => "published",
            Way::Down => "down",
            Way::Flapping => "flapping",
            Way::Limit => "limit",
            Way::History => "history",
        }
    }

    /// What stands in its fields before anybody has typed anything.
    fn defaults(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Way::Published => &[("scenario", "mixed")],
            Way::Down => &[("from", "30s"), ("to", "20m"), ("arrivals", "10"), ("permanent", "0")],
            Way::Flapping => {
                &[("down", "90s"), ("up", "45s"), ("lasts", "1h"), ("arrivals", "10"), ("permanent", "0")]
            }
            Way::Limit => &[("takes", "60"), ("lasts", "10m"), ("arrivals", "120"), ("permanent", "0")],
            Way::History => &[("channel", ""), ("category", "")],
        }
    }
}

/// A policy that can be chosen.
pub(super) struct Pick {
    /// As addresses have it.
    pub(super) value: String,
    pub(super) words: String,
    pub(super) policy: Policy,
    /// The command line knows it by its name alone.
    pub(super) named: bool,
}

/// Those that this person may see. A form that a channel has made of a policy goes by the channel's name.
pub(super) fn picks(visit: &Visit) -> Vec<Pick> {
    let setup = visit.door().setup();
    let as_configured = |policy: &Policy| setup.dashboard.policies.contains(policy);
    let pick = |used: policies::Used| {
        let name = used.policy.name.to_string();
        let channel = used.channels.first().map(|it| it.name.to_string());
        let (value, words, named) = match channel {
            Some(channel) if !as_configured(&used.policy) => {
                (format!("channel:{channel}"), format!("{name} ({channel})"), false)
            }
            _ => (name.clone(), name, true),
        };
        Pick { value, words, policy: used.policy, named }
    };
    policies::all(visit).into_iter().map(pick).collect()
}

/// What was asked for.
pub(super) struct Asked {
    pub(super) way: Way,
    /// The fields as they stand, whether they can be accepted or not.
    pub(super) form: Form,
    wrong: Vec<FieldError>,
}

impl Asked {
    pub(super) fn read(uri: &Uri, picks: &[Pick]) -> Asked {
        let given = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        let given = given.map(|it| it.0).unwrap_or_default();
        let named = |name: &str| given.iter().rev().find(|(field, _)| field == name).map(|(_, value)| value);
        let wanted = named("try").map_or("published", String::as_str);
        let way = Way::ALL.into_iter().find(|way| way.name() == wanted).unwrap_or(Way::Published);
        let policy = ("policy".to_owned(), picks.first().map(|it| it.value.clone()).unwrap_or_default());
        let defaults = way.defaults().iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let form = [policy].into_iter().chain(defaults).chain(given.iter().cloned()).collect();
        Asked { way, form, wrong: Vec::new() }
    }

    pub(super) fn policy<'a>(&mut self, picks: &'a [Pick]) -> Option<&'a Pick> {
        let wanted = self.form.get("policy").trim().to_owned();
        let found = picks.iter().find(|it| it.value == wanted);
        if found.is_none() {
            self.refuse("policy", format!("there is no policy `{wanted}`"));
        }
        found
    }

    /// The trouble that is to be played.
    pub(super) fn scenario(&mut self) -> Option<Scenario> {
        if self.way == Way::Published {
            return self.published();
        }
        // Whatever is wrong is said at once, so everything is read before anything is given up.
        let trouble = self.trouble();
        let (arrivals, permanent) = (self.count("arrivals"), self.percent("permanent"));
        let permanent = permanent?;
        let scenario =
            Scenario::own(trouble?).with(Some(arrivals?), Some(permanent).filter(|share| *share > 0));
        let wrong = scenario.wrong();
        wrong.iter().for_each(|it| self.refuse(it.part, it.reason));
        wrong.is_empty().then_some(scenario)
    }

    fn trouble(&mut self) -> Option<Trouble> {
        Some(match self.way {
            Way::Down => {
                let (least, most) = (self.length("from"), self.length("to"));
                Trouble::Down { least: least?, most: most? }
            }
            Way::Flapping => {
                let (down, up, lasts) = (self.length("down"), self.length("up"), self.length("lasts"));
                Trouble::Flapping { lasts: lasts?, down: down?, up: up? }
            }
            Way::Limit => {
                let (takes, lasts) = (self.count("takes"), self.length("lasts"));
                Trouble::Limited { lasts: lasts?, takes: takes?.into() }
            }
            Way::Published | Way::History => return None,
        })
    }

    fn published(&mut self) -> Option<Scenario> {
        let name = self.form.get("scenario").to_owned();
        let found = Scenario::published(&name);
        if found.is_none() {
            self.refuse("scenario", format!("there is no scenario `{name}`"));
        }
        found
    }

    pub(super) fn refuse(&mut self, field: &'static str, reason: impl Into<String>) {
        let hint = String::new();
        self.wrong.push(FieldError {
            code: Code::InvalidField,
            field: field.into(),
            reason: reason.into(),
            hint,
        });
    }

    fn length(&mut self, field: &'static str) -> Option<Span> {
        match self.form.given(field).map(str::parse::<Span>) {
            Some(Ok(span)) => return Some(span),
            Some(Err(_)) => {
                self.refuse(field, "is not a length of time");
            }
            None => self.refuse(field, "is missing"),
        }
        None
    }

    fn count(&mut self, field: &'static str) -> Option<u32> {
        let number = self.form.given(field).and_then(|text| text.parse::<u32>().ok());
        let number = number.filter(|number| (1..=1_000_000).contains(number));
        if number.is_none() {
            self.refuse(field, "is not a whole number from 1 to 1000000");
        }
        number
    }

    fn percent(&mut self, field: &'static str) -> Option<u8> {
        let number = self.form.given(field).and_then(|text| text.parse::<u8>().ok());
        let number = number.filter(|number| *number <= 100);
        if number.is_none() {
            self.refuse(field, "is not a whole number from 0 to 100");
        }
        number
    }

    /// What is wrong, where anything is.
    pub(super) fn problem(&self) -> Option<Problem> {
        (!self.wrong.is_empty()).then(|| Problem::fields(self.wrong.clone()))
    }

    /// The command that plays the same.
    pub(super) fn command(&self, pick: &Pick, messages: usize) -> Option<String> {
        let get = |name| self.form.get(name).split_whitespace().collect::<String>();
        let mut own = match self.way {
            Way::Published => format!("--scenario {}", get("scenario")),
            Way::Down => format!("--down {}..{}", get("from"), get("to")),
            Way::Flapping => format!("--flapping {}/{} --lasts {}", get("down"), get("up"), get("lasts")),
            Way::Limit => format!("--limit {} --lasts {}", get("takes"), get("lasts")),
            Way::History => {
                let given = ["channel", "category"].map(|name| Some((name, self.form.given(name)?)));
                let given = given.into_iter().flatten().map(|(name, value)| format!(" --{name} {value}"));
                let command = format!("pombo simulate {} --history server", pick.value);
                return pick.named.then(|| command + &given.collect::<String>());
            }
        };
        if self.way != Way::Published {
            own.push_str(&format!(" --arrivals {}", get("arrivals")));
            if get("permanent") != "0" {
                own.push_str(&format!(" --permanent {}", get("permanent")));
            }
        }
        pick.named.then(|| format!("pombo simulate {} {own} --messages {messages}", pick.value))
    }
}
