//! From a failed reply to what it means: verdict, category, and whom it blames.
//!
//! The knowledge is data: ordered tables of rules, one file a channel kind, under `rules/`. A channel may put
//! rules of its own before them. The first rule that matches decides.

mod claim;
mod meaning;
mod pack;
pub mod read;
mod recorded;
mod rule;
mod soap;

#[cfg(test)]
mod http_tests;
#[cfg(test)]
mod smtp_tests;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::claim::{ClaimError, claim_error};
pub use self::meaning::{in_words, said};
pub use self::recorded::recorded;
pub use self::rule::{BadRule, OneOf, Rule};

use self::rule::Compiled;
use crate::hint;
use crate::kind::ChannelKind;
use crate::reply::{Enhanced, FaultKind, Reply, Stage};
use crate::time::Span;

/// What an error means for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may pass: try again by policy.
    Transient,
    /// It will not pass: dead letter.
    Permanent,
    /// Nothing matched. Treated as transient, with a warning.
    UnknownTransient,
    /// Our credentials, instance or configuration. The message waits; no attempt is burnt.
    SenderFault,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Transient => "transient",
            Verdict::Permanent => "permanent",
            Verdict::UnknownTransient => "unknown_transient",
            Verdict::SenderFault => "sender_fault",
        }
    }
}

/// How much waits when we are at fault: the narrowest thing that the fault is common to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One URL host, instance, account, relay or operator.
    #[default]
    Destination,
    /// Everything on the channel.
    Channel,
}

/// What a person does about a fault of ours, for the categories that have an answer.
pub fn remedy(category: &str) -> Option<&'static str> {
    Some(match category {
        "unauthorized" | "forbidden" | "invalid_api_key" => {
            "check the channel's key or secret, then release it"
        }
        "proxy_unauthorized" => "the proxy on the way wants a login",
        "redirected" => "the address has moved: write the new one",
        "invalid_permission" => "give the key the right to send",
        "unverified_sender" => "verify the sender's domain with the provider, or send from one that is",
        "account_quota" | "monthly_quota" => "raise the plan, or wait for the next period",
        "instance_closed" | "instance_logged_out" => "connect the instance again (scan its QR code)",
        "unknown_instance" => "check the channel's `instance`",
        "unknown_route" | "wrong_address" => "check the channel's address",
        "unlicensed" => "activate Evolution's licence",
        "meta_account" => "look into the account at Meta",
        "login_refused" | "invalid_login" => "check the channel's user name and password",
        "relay_denied" => "the server relays only for those that it knows: log in, or ask its operator",
        "blocklisted" | "poor_reputation" | "spam_suspected" => {
            "the sending address or domain has a bad name there: see to it, then release"
        }
        "sender_authentication" | "missing_ptr" | "helo_rejected" => "mend SPF, DKIM, DMARC or reverse DNS",
        "sender_rejected" => "check the sender's address",
        "account_suspended" => "ask the provider why the account is suspended",
        "certificate" => "check the client certificate",
        "provider_contract" | "registry_or_version" => {
            "check the provider's data and version with the operator"
        }
        _ => return None,
    })
}

/// The meaning of one failed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    pub verdict: Verdict,
    /// A short stable slug: `rate_limited`, `mailbox_full`, `invalid_recipient`.
    pub category: String,
    /// It counts against the destination's health.
    pub destination_fault: bool,
    /// The recipient should be kept out of later bulk sends.
    pub suppress: bool,
    /// The provider says that it has this very message already.
    pub already_there: bool,
    /// What is held when the verdict is `sender_fault`.
    pub scope: Scope,
    /// A wait that this error calls for at least (a greylisting reply, a daily quota), if any.
    pub wait: Option<Span>,
    /// Which rule matched, such as `smtp:gmail-rate` or `channel:0`; none when nothing did.
    pub rule: Option<String>,
}

/// What rules are cited under that people accepted while Pombo ran.
pub const ACCEPTED: &str = "accepted";

/// The rules of one channel, in the order in which they are tried.
#[derive(Clone, Debug)]
pub struct Rules {
    kind: ChannelKind,
    extra: Vec<Compiled>,
    accepted: Vec<Compiled>,
    built_in: Vec<&'static pack::Table>,
}

impl Rules {
    /// The channel's own rules first, so that they override, then the tables of its kind.
    ///
    /// Fails on the first rule that cannot be used, since a rule that silently never matches is worse than
    /// one that is refused.
    pub fn for_kind(kind: ChannelKind, extra: &[Rule]) -> Result<Rules, BadRule> {
        let extra = extra.iter().enumerate().map(|(index, rule)| Compiled::new("channel", index, rule));
        let extra = extra.collect::<Result<_, _>>()?;
        Ok(Rules { kind, extra, accepted: Vec::new(), built_in: pack::of(kind) })
    }

    /// The same with these rules, which people accepted while Pombo ran, in place of those accepted before. They come
    /// after the channel's own and before the tables, and are cited as `accepted:ID`. One that cannot be used is left
    /// out, and given back.
    pub fn accepting(&self, rules: &[Rule]) -> (Rules, Vec<BadRule>) {
        let compiled = rules.iter().enumerate().map(|(index, rule)| Compiled::new(ACCEPTED, index, rule));
        let (mut accepted, mut bad) = (Vec::new(), Vec::new());
        for rule in compiled {
            match rule {
                Ok(rule) => accepted.push(rule),
                Err(flaw) => bad.push(flaw),
            }
        }
        (Rules { accepted, ..self.clone() }, bad)
    }

    /// Every rule of the list that cannot be used.
    pub fn check(extra: &[Rule]) -> Vec<BadRule> {
        extra
            .iter()
            .enumerate()
            .filter_map(|(index, rule)| Compiled::new("channel", index, rule).err())
            .collect()
    }

    /// What a failed reply means; nothing for a reply that is no failure.
    ///
    /// An error that no rule knows is taken as passing, and names no rule: when in doubt, retry.
    pub fn classify(&self, reply: &Reply) -> Option<Meaning> {
        let facts = Facts::of(reply)?;
        let Some(found) = self.compiled().find(|rule| rule.matches(&facts)) else {
            return Some(Meaning {
                verdict: Verdict::UnknownTransient,
                category: "unknown".to_owned(),
                destination_fault: false,
                suppress: false,
                already_there: false,
                scope: Scope::default(),
                wait: self.named_wait(reply),
                rule: None,
            });
        };
        let rule = &found.rule;
        let passing = matches!(rule.verdict, Verdict::Transient | Verdict::UnknownTransient);
        Some(Meaning {
            verdict: rule.verdict,
            category: rule.category.clone(),
            destination_fault: rule.destination_fault,
            suppress: rule.suppress,
            already_there: rule.already_delivered,
            scope: rule.scope,
            wait: if passing { self.named_wait(reply).or(rule.wait) } else { rule.wait },
            rule: Some(found.id.clone()),
        })
    }

    /// Every rule with its id, in the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Rule)> {
        self.compiled().map(|compiled| (compiled.id.as_str(), &compiled.rule))
    }

    /// The rule that a meaning cites, for its note.
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        self.iter().find(|(known, _)| *known == id).map(|(_, rule)| rule)
    }

    fn compiled(&self) -> impl Iterator<Item = &Compiled> {
        self.extra.iter().chain(&self.accepted).chain(self.built_in.iter().flat_map(|table| table.iter()))
    }

    /// SMTP has no header for "come back then"; servers that know the time say it in words.
    fn named_wait(&self, reply: &Reply) -> Option<Span> {
        match reply {
            Reply::Refused(refusal) if self.kind == ChannelKind::Smtp => hint::greylist_wait(&refusal.text),
            _ => None,
        }
    }
}

/// What rules look at, laid out once a reply.
struct Facts<'a> {
    status: Option<u16>,
    enhanced: Option<Enhanced>,
    name: Option<&'a str>,
    fault: Option<FaultKind>,
    stage: Option<Stage>,
    /// The reply's text and then its name, as `plain` leaves them.
    words: String,
}

impl Facts<'_> {
    fn of(reply: &Reply) -> Option<Facts<'_>> {
        match reply {
            Reply::Accepted(_) => None,
            Reply::Refused(refusal) => {
                let mut words = plain(&refusal.text);
                if let Some(name) = &refusal.name {
                    words.push(' ');
                    words.push_str(&plain(name));
                }
                // A code without its basic half still tells a refusal from a delay.
                let class = refusal.enhanced.map(|code| u16::from(code.class) * 100 + 50);
                Some(Facts {
                    status: refusal.status.or(class),
                    enhanced: refusal.enhanced,
                    name: refusal.name.as_deref(),
                    fault: None,
                    stage: Some(refusal.stage),
                    words,
                })
            }
            Reply::Unreachable(fault) | Reply::Doubtful(fault) => Some(Facts {
                status: None,
                enhanced: None,
                name: None,
                fault: Some(fault.kind),
                stage: None,
                words: plain(&fault.text),
            }),
        }
    }
}

/// Lower-case words without accents on one line, one blank between them.
///
/// SMTP servers fold long replies and repeat their codes on every line (`421-4.7.0 …`), which would cut a
/// phrase in two; the codes at the head of a later line are left out.
fn plain(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    for (number, line) in text.lines().enumerate() {
        let line = if number == 0 { line } else { without_codes(line) };
        for word in line.split_whitespace() {
            if !words.is_empty() {
                words.push(' ');
            }
            words.extend(word.chars().flat_map(char::to_lowercase).filter_map(bare));
        }
    }
    words
}

/// A letter without its accent, and a quotation mark as a typewriter has it: servers write Portuguese either way.
fn bare(c: char) -> Option<char> {
    Some(match c {
        'á' | 'à' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'í' | 'ì' | 'î' | 'ï' => 'i',
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' => 'o',
        'ú' | 'ù' | 'û' | 'ü' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        '‘' | '’' => '\'',
        '“' | '”' => '"',
        '\u{300}'..='\u{36f}' => return None,
        other => other,
    })
}

fn without_codes(line: &str) -> &str {
    let line = line.trim_start();
    let rest = match line.as_bytes() {
        [a, b, c, b'-' | b' ', ..] if [a, b, c].iter().all(|d| d.is_ascii_digit()) => &line[4..],
        _ => line,
    };
    match rest.split_once(' ') {
        Some((code, rest)) if enhanced_code(code) => rest,
        _ => rest,
    }
}

fn enhanced_code(text: &str) -> bool {
    let mut parts = text.split('.');
    let mut number =
        || parts.next().is_some_and(|p| matches!(p.len(), 1..=3) && p.bytes().all(|b| b.is_ascii_digit()));
    number() && number() && number() && parts.next().is_none()
}
