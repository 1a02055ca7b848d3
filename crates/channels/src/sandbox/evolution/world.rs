//! What the pretend Evolution knows: its instance, who is on WhatsApp, and what it sent.

use std::collections::{HashMap, HashSet};
use std::fmt;

use pombo_kernel::content::phone;
use pombo_kernel::dice::Dice;
use pombo_kernel::time::Time;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Hook, Options};

/// How the instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Open,
    Connecting,
    /// Logged out, or not connected.
    Close,
    /// In the database, but not loaded.
    Absent,
    /// The whole installation waits for its licence.
    Unlicensed,
}

impl State {
    pub(super) fn read(word: &str) -> Option<State> {
        Some(match word {
            "open" => State::Open,
            "connecting" => State::Connecting,
            "close" | "logout" => State::Close,
            "absent" => State::Absent,
            "unlicensed" => State::Unlicensed,
            _ => return None,
        })
    }
}

/// A message that went out.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// The id of its key, by which receipts speak of it.
    pub key_id: String,
    /// The number as it was asked for.
    pub number: String,
    pub jid: String,
    /// The how many-th request for this number it was.
    pub attempt: u32,
    /// The body of the request.
    pub body: Value,
}

/// Leaves out whom it went to and what it said.
impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl Sent {
    pub(super) fn answer(&self) -> Value {
        let is_text = self.body.get("text").is_some();
        let (kind, message) = if is_text {
            ("conversation", json!({"conversation": self.body["text"]}))
        } else {
            ("mediaMessage", json!({"mediaMessage": {"caption": self.body.get("caption")}}))
        };
        json!({
            "key": {"remoteJid": self.jid, "fromMe": true, "id": self.key_id},
            "pushName": "", "status": "PENDING", "message": message, "messageType": kind,
            "messageTimestamp": 0, "instanceId": "sandbox", "source": "web",
        })
    }
}

/// A request to send, whatever became of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Visit {
    pub number: String,
    pub text: String,
    pub started: Time,
    /// When it was answered, or whoever made it was gone.
    pub ended: Option<Time>,
}

/// Leaves out whom it was for and what it said.
impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Visit({} to {:?})", self.started, self.ended)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Well-formed requests to send, whatever became of them.
    pub received: u64,
    /// Requests to send that were not.
    pub malformed: u64,
    /// Messages that went out.
    pub sent: u64,
    /// Of these, how many said the same to the same number before.
    pub duplicates: u64,
    pub receipts: u64,
    pub receipts_failed: u64,
    pub connections: u64,
}

pub(super) struct World {
    pub(super) state: State,
    pub(super) outage: bool,
    pub(super) hook: Option<Hook>,
    pub(super) sent: Vec<Sent>,
    pub(super) visits: Vec<Visit>,
    pub(super) malformed: u64,
    pub(super) receipts: u64,
    pub(super) receipts_failed: u64,
    pub(super) connections: u64,
    received: HashMap<String, u32>,
    said: HashSet<String>,
    duplicates: u64,
    dice: Dice,
}

impl World {
    pub(super) fn new(options: &Options) -> World {
        World {
            state: State::Open,
            outage: false,
            hook: options.hook.clone(),
            sent: Vec::new(),
            visits: Vec::new(),
            malformed: 0,
            receipts: 0,
            receipts_failed: 0,
            connections: 0,
            received: HashMap::new(),
            said: HashSet::new(),
            duplicates: 0,
            dice: Dice::seeded(options.seed),
        }
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            received: self.received.values().map(|count| u64::from(*count)).sum(),
            malformed: self.malformed,
            sent: self.sent.len() as u64,
            duplicates: self.duplicates,
            receipts: self.receipts,
            receipts_failed: self.receipts_failed,
            connections: self.connections,
        }
    }

    /// Notes a request to send; which one it is of all.
    pub(super) fn visited(&mut self, body: &Value, started: Time) -> usize {
        let word = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        self.visits.push(Visit { number: word("number"), text: word("text"), started, ended: None });
        self.visits.len() - 1
    }

    /// Counts a request, and says the how many-th it is for this number.
    pub(super) fn received(&mut self, number: &str) -> u32 {
        let count = self.received.entry(number.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Sends it. This comes before the answer, so that the log is never behind.
    pub(super) fn take(&mut self, number: &str, jid: &str, attempt: u32, body: &Value) -> Sent {
        let chosen = body.get("messageId").and_then(Value::as_str).map(str::to_owned);
        let drawn = (u128::from(self.dice.next_u64()) << 64 | u128::from(self.dice.next_u64())) >> 56;
        let sent = Sent {
            key_id: chosen.unwrap_or_else(|| format!("3EB0{drawn:018X}")),
            number: number.to_owned(),
            jid: jid.to_owned(),
            attempt,
            body: body.clone(),
        };
        if !self.said.insert(body.to_string()) {
            self.duplicates += 1;
        }
        self.sent.push(sent.clone());
        sent
    }

    pub(super) fn is_unlucky(&mut self, percent: u8) -> bool {
        self.dice.below(100) < u64::from(percent)
    }

    pub(super) fn connection_state(&self, instance: &str) -> Value {
        let mut answer = json!({"instance": {"instanceName": instance}});
        if self.state != State::Absent {
            answer["instance"]["state"] = json!(self.state);
        }
        answer
    }

    pub(super) fn whatsapp_numbers(body: &Value) -> Value {
        let numbers = body["numbers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let look = |number: &Value| {
            let number = number.as_str().unwrap_or_default();
            let jid = World::jid(number).unwrap_or_else(|| format!("{number}@s.whatsapp.net"));
            json!({"jid": jid, "exists": World::exists(number), "number": number})
        };
        numbers.iter().map(look).collect()
    }

    pub(super) fn hook_shown(&self) -> Value {
        self.hook.as_ref().map_or(Value::Null, Hook::shown)
    }

    /// Where a number leads; nowhere if it is neither bare digits nor a JID.
    pub(super) fn jid(number: &str) -> Option<String> {
        let digits = number.len() >= 8 && number.bytes().all(|b| b.is_ascii_digit());
        if digits {
            return Some(format!("{number}@s.whatsapp.net"));
        }
        (number.contains('@') && phone::is_recipient(number)).then(|| number.to_owned())
    }

    /// Whether the number is on WhatsApp. A Brazilian number without its country's 55 is not, which is how most
    /// false alarms come about.
    pub(super) fn exists(number: &str) -> bool {
        let Some(jid) = World::jid(number) else { return false };
        let user = jid.split('@').next().unwrap_or_default();
        let long = user.len() == 13 && user.starts_with("55");
        let bare = user == number && phone::digits_for(number) != number;
        !(user.ends_with("0404") || (user.ends_with("0009") && long) || bare)
    }
}
