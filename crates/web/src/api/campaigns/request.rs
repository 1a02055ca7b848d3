//! What callers want a campaign to be like, read field by field.

use pombo_kernel::campaign::Campaign;
use pombo_kernel::campaign::throttle::{BadThrottle, Throttle};
use pombo_kernel::campaign::waiting::never;
use pombo_kernel::name::{ChannelName, LaneName, TemplateName};
use pombo_kernel::setup::ChannelSetup;
use pombo_kernel::time::{Span, Time};
use pombo_kernel::turns::Weight;
use pombo_kernel::window::{Window, Zone};
use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::api::fields::Fields;
use crate::api::page::parsed;
use crate::problem::Problem;

const NAME_BYTES: usize = 200;
pub(super) const NOTE_BYTES: usize = 500;
/// Nobody waits longer.
pub(super) const LONGEST: Span = Span::from_hours(3_650 * 24);
/// A time this little in the past is now: clocks differ, and requests travel.
const PAST_ALLOWANCE: Span = Span::from_mins(1);

/// A campaign that is wished for. The schema of the request; what is read is judged field by field.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct CampaignRequest {
    /// For people.
    #[schemars(length(min = 1, max = 200))]
    name: String,
    /// One that writes to persons: WhatsApp or e-mail.
    channel: ChannelName,
    /// Its latest version is the one that is sent, whatever becomes of it later.
    template: TemplateName,
    /// What the template says to everybody; recipients bring their own.
    payload: Option<Map<String, Value>>,
    /// Where `send_bulk_messages` are routed to if left out, which is `bulk` unless configured otherwise.
    lane: Option<LaneName>,
    /// From the end of one send to the start of the next, at least. 15 if left out, and not below 3.
    #[schemars(range(min = 3, max = 86_400))]
    throttle_min_seconds: Option<f64>,
    /// The same, at most. 25 if left out.
    #[schemars(range(min = 3, max = 86_400))]
    throttle_max_seconds: Option<f64>,
    /// When it may send; always if left out.
    window: Option<Window>,
    /// How many turns its messages get in their lane where those of others get one. 1 if left out.
    weight: Option<Weight>,
    /// It pauses once this share of the last sends failed: 0.5 if left out, never if null.
    #[schemars(range(min = 0, max = 1))]
    max_failure_rate: Option<f64>,
    /// A message that is unsent so long after it was made is given up.
    expires_after: Option<Span>,
    /// By which you know the list that follows again. It is not kept; but under an `Idempotency-Key`, a request with
    /// another one is another request.
    #[schemars(length(min = 1, max = 128))]
    list_digest: Option<String>,
}

/// What is to change about a campaign. What is left out stays.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct CampaignChange {
    #[schemars(length(min = 1, max = 200))]
    name: Option<String>,
    /// Its latest version. Only before the campaign has begun.
    template: Option<TemplateName>,
    /// The whole of it. Only before the campaign has begun.
    payload: Option<Map<String, Value>>,
    #[schemars(range(min = 3, max = 86_400))]
    throttle_min_seconds: Option<f64>,
    #[schemars(range(min = 3, max = 86_400))]
    throttle_max_seconds: Option<f64>,
    /// Null for always.
    window: Option<Window>,
    weight: Option<Weight>,
    /// Null for never.
    #[schemars(range(min = 0, max = 1))]
    max_failure_rate: Option<f64>,
}

/// How a campaign begins.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct StartRequest {
    /// When; at once if left out.
    at: Option<Time>,
    /// Only says what would be done, as a preview.
    dry_run: Option<bool>,
}

/// When a campaign begins.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct ScheduleRequest {
    at: Time,
}

/// Why a campaign is paused.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct CampaignPauseRequest {
    #[schemars(length(min = 1, max = 500))]
    note: Option<String>,
}

/// What is tried again.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct CampaignRetryRequest {
    /// Also those who failed.
    failed: Option<bool>,
}

/// What a request says of a campaign; nothing where it says nothing.
#[derive(Default)]
pub(super) struct Wish {
    pub(super) name: Option<String>,
    pub(super) payload: Option<Map<String, Value>>,
    min: Option<f64>,
    max: Option<f64>,
    window: Option<Option<Window>>,
    weight: Option<Weight>,
    max_failure_rate: Option<Option<f64>>,
}

impl Wish {
    /// Hours that name no time zone are those of the channel's.
    pub(super) fn read(fields: &mut Fields, payload_bytes: usize, zone: &Zone, now: Time) -> Wish {
        Wish {
            name: fields.line("name", NAME_BYTES),
            payload: payload(fields, payload_bytes),
            min: number(fields, "throttle_min_seconds"),
            max: number(fields, "throttle_max_seconds"),
            window: window(fields, zone, now),
            weight: weight(fields),
            max_failure_rate: rate(fields),
        }
    }

    /// Hours that it names must meet those of its channel. Whatever is wrong with them is told with the fields.
    pub(super) fn meets(&self, channel: Option<&ChannelSetup>, fields: &mut Fields, now: Time) {
        if let (Some(Some(window)), Some(channel)) = (&self.window, channel)
            && let Some(why) = never(Some(window), &channel.line, now)
        {
            fields.wrong("window", why, OTHER_HOURS);
        }
    }

    /// The pace of a new one. Whatever is wrong with it is told with the fields.
    pub(super) fn throttle(&self, fields: &mut Fields) -> Throttle {
        Throttle::new(self.min, self.max).unwrap_or_else(|bad| {
            let (field, reason) = self.unfit(bad);
            fields.wrong(field, reason, HOW_FAST);
            Throttle::default()
        })
    }

    /// Makes it so, but for the template; the names of what was changed.
    pub(super) fn apply(&self, campaign: &mut Campaign) -> Result<Vec<&'static str>, Problem> {
        let mut changed = Vec::new();
        let mut note = |field, differs: bool| {
            if differs {
                changed.push(field);
            }
        };
        if let Some(name) = &self.name {
            note("name", campaign.name != *name);
            campaign.name.clone_from(name);
        }
        if let Some(payload) = &self.payload {
            note("payload", campaign.payload != *payload);
            campaign.payload.clone_from(payload);
        }
        if self.min.is_some() || self.max.is_some() {
            let min = self.min.unwrap_or(campaign.throttle.min().seconds());
            let max = self.max.unwrap_or(campaign.throttle.max().seconds());
            let throttle = Throttle::new(Some(min), Some(max)).map_err(|bad| {
                let (field, reason) = self.unfit(bad);
                Problem::field(field, reason, HOW_FAST)
            })?;
            note("throttle", campaign.throttle != throttle);
            campaign.set_throttle(throttle);
        }
        if let Some(window) = &self.window {
            note("window", campaign.window != *window);
            campaign.window.clone_from(window);
        }
        if let Some(weight) = self.weight {
            note("weight", campaign.weight != weight);
            campaign.weight = weight;
        }
        if let Some(rate) = self.max_failure_rate {
            note("max_failure_rate", campaign.max_failure_rate != rate);
            campaign.max_failure_rate = rate;
        }
        Ok(changed)
    }

    /// Which field it is that does not fit, and why.
    fn unfit(&self, bad: BadThrottle) -> (&'static str, String) {
        let said = bad.to_string();
        let reason = said.split_once(' ').map_or(&*said, |(_, reason)| reason).to_owned();
        let field = match bad {
            BadThrottle::TooFast if self.min.is_some() => "throttle_min_seconds",
            // The least cannot be more than the most.
            BadThrottle::TooFast | BadThrottle::TooSlow => "throttle_max_seconds",
            BadThrottle::Reversed if self.max.is_some() => "throttle_max_seconds",
            BadThrottle::Reversed => "throttle_min_seconds",
        };
        (field, reason)
    }
}

/// For a campaign that may never send.
pub(super) const OTHER_HOURS: &str = "choose hours, days and a time zone in which both are open, or change `window` of the channel in the configuration";

const HOW_FAST: &str = "15 and 25 are usual; the wait is drawn evenly between the two";

fn number(fields: &mut Fields, field: &'static str) -> Option<f64> {
    let number = fields.value(field)?.as_f64();
    if number.is_none() {
        fields.wrong(field, "is not a number of seconds", "write for example 15, without quotes");
    }
    number
}

fn payload(fields: &mut Fields, bytes_max: usize) -> Option<Map<String, Value>> {
    match fields.value("payload")? {
        Value::Object(payload) => {
            let bytes = serde_json::to_string(&payload).map_or(usize::MAX, |text| text.len());
            if bytes > bytes_max {
                let reason = format!("has {bytes} bytes; at most {bytes_max} are taken");
                fields.wrong("payload", reason, "put what is long into the template");
            }
            Some(payload)
        }
        _ => {
            fields.wrong("payload", "is not an object", "write {\"name\": \"value\"}");
            None
        }
    }
}

fn window(fields: &mut Fields, zone: &Zone, now: Time) -> Option<Option<Window>> {
    const FORM: &str = "write {\"hours\": \"08:00-20:00\", \"days\": [\"mon\", \"sat\"], \"time_zone\": \
                        \"America/Sao_Paulo\", \"holidays\": [\"2026-12-25\"]}";
    let mut given = match fields.nullable("window")? {
        Value::Null => return Some(None),
        given => given,
    };
    if let Value::Object(parts) = &mut given {
        parts.entry("time_zone").or_insert_with(|| zone.to_string().into());
    }
    match serde_json::from_value::<Window>(given) {
        Ok(window) if Window::together(&[&window], now).is_none() => {
            fields.wrong("window", "is never open", "name at least one day that is no holiday");
            None
        }
        Ok(window) => Some(Some(window)),
        Err(error) => {
            let said: String = error.to_string().chars().take(200).collect();
            let (reason, hint) = said.split_once("; ").unwrap_or((&said, FORM));
            fields.wrong("window", format!("cannot be read: {reason}"), hint);
            None
        }
    }
}

fn weight(fields: &mut Fields) -> Option<Weight> {
    let given = fields.whole("weight", 1, Weight::MAX.get().into())?;
    u32::try_from(given).ok().and_then(Weight::new)
}

fn rate(fields: &mut Fields) -> Option<Option<f64>> {
    let given = fields.nullable("max_failure_rate")?;
    let rate = given.as_f64().filter(|rate| *rate > 0.0 && *rate <= 1.0);
    if rate.is_none() && !given.is_null() {
        let hint = "write for example 0.3 to stop when three of ten failed, or null for never";
        fields.wrong("max_failure_rate", "is not a number above 0 and at most 1", hint);
        return None;
    }
    Some(rate)
}

/// How long messages live.
pub(super) fn expires_after(fields: &mut Fields) -> Option<Span> {
    let text = fields.line("expires_after", 32)?;
    let span = text.parse::<Span>().ok().filter(|span| *span > Span::ZERO && *span <= LONGEST);
    if span.is_none() {
        fields.wrong("expires_after", "is not a length of time up to ten years", "write for example \"48h\"");
    }
    span
}

/// A time to come.
pub(super) fn at(fields: &mut Fields, now: Time) -> Option<Time> {
    let text = fields.line("at", 64)?;
    match parsed::<Time>(&text) {
        Err((reason, hint)) => {
            fields.wrong("at", reason, hint);
            None
        }
        Ok(at) if at + PAST_ALLOWANCE < now => {
            let reason = format!("{at} is in the past; it is now {now}");
            let code = crate::problem::Code::TimeInPast;
            let hint = "give a time to come, or start it at once".to_owned();
            fields.refuse(crate::problem::FieldError { code, field: "at".into(), reason, hint });
            None
        }
        Ok(at) if at.since(now) > LONGEST => {
            fields.wrong("at", "is more than ten years away", "give a time to come that somebody will see");
            None
        }
        Ok(at) => Some(at),
    }
}
