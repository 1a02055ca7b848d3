//! Channels, keys, counts, the store, health.

use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::window::Zone;
use schemars::JsonSchema;

use super::entry::{CURSOR, Entry, IDEMPOTENCY, LIMIT, Param, REPLAYED, entry, json, param, said, written};
use super::request::{HoldRequest, KeyIdText, Nothing, OpenRequest, PauseRequest, PlaceRequest};
use crate::api::channels::{ChannelView, ChannelsView};
use crate::api::health::ReadyView;
use crate::api::keys::{KeyChange, KeyRequest, KeyView, RotateRequest, RotatedView};
use crate::api::links::LinkView;
use crate::api::operations::{OperationView, TestView};
use crate::api::page::Page;
use crate::api::privacy::EraseRequest;
use crate::api::stats::{StatsView, Step};
use crate::api::store::{PruneRequest, StandingView};
use crate::problem::Code;
use serde_json::{Map, Value};

const CHANNEL: Param = param::<ChannelName>("name", "The channel's name.");
const KEY: Param = param::<KeyIdText>("id", "`key_` and 16 hexadecimal digits.");
const KEY_OR_OWN: Param =
    param::<String>("id", "`key_` and 16 hexadecimal digits; `own` for the key that asks.");
const TENANT: Param =
    param::<Tenant>("tenant", "Whose; only admins of the tenant `default` may name another than their own.");
const FORCE: Param = param::<bool>("force", "Also the last admin key that works.");

/// A process that is alive.
#[derive(JsonSchema)]
#[schemars(rename = "Health")]
#[allow(dead_code)]
struct HealthView {
    /// `ok`.
    status: String,
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("GET", "/healthz", "alive", "The process is alive")
        .answers(&[said::<HealthView>(200, "There is nothing to restart.")]),
    entry("GET", "/readyz", "ready", "Messages can be accepted and recorded")
        .about("What is not well though the node is ready is a warning among `checks`. Where it is not ready, the problem has `checks`, too.")
        .answers(&[said::<ReadyView>(200, "It is ready.")])
        .codes(&[Code::StoreUnavailable, Code::ShuttingDown, Code::Overloaded]),
    entry("GET", "/metrics", "metrics", "Numbers for Prometheus")
        .about("Asks for a key with the role viewer, operator or admin of the tenant `default` if `metrics.require_key` is set.")
        .answers(&[written(200, "text/plain", "The text format 0.0.4.")])
        .codes(&[Code::Unauthorized, Code::Forbidden]),
    entry("GET", "/openapi.json", "openapi", "This document")
        .answers(&[said::<Map<String, Value>>(200, "OpenAPI 3.1.")]),
    entry("GET", "/docs", "docs", "This document, to be read").answers(&[written(
        200,
        "text/html",
        "A page that needs nothing from elsewhere.",
    )]),
    entry("GET", "/v1/channels", "list_channels", "The channels and what makes them wait")
        .answers(&[said::<ChannelsView<'_>>(200, "All of them.")]),
    entry(
        "POST",
        "/v1/channels/{name}/hold",
        "hold_channel",
        "Stops sending through a channel, or to one destination",
    )
    .about("Its messages wait and lose no attempt.")
    .names(&[CHANNEL])
    .needs(&[json::<HoldRequest>("HoldRequest", r#"{"reason": "maintenance until noon"}"#)])
    .answers(&[said::<ChannelView<'_>>(200, "The channel as it is now.")]),
    entry("POST", "/v1/channels/{name}/release", "release_channel", "Lifts a hold or a pause")
        .names(&[CHANNEL])
        .takes(&[json::<PlaceRequest>("PlaceRequest", "{}")])
        .answers(&[said::<ChannelView<'_>>(200, "The channel as it is now.")]),
    entry("POST", "/v1/channels/{name}/open", "open_breaker", "Opens a breaker by hand")
        .names(&[CHANNEL])
        .takes(&[json::<OpenRequest>("OpenRequest", r#"{"reason": "they asked for it", "for": "30m"}"#)])
        .answers(&[said::<ChannelView<'_>>(200, "The channel as it is now.")]),
    entry(
        "POST",
        "/v1/channels/{name}/close",
        "close_breaker",
        "Closes a breaker: all that waits goes at once",
    )
    .names(&[CHANNEL])
    .takes(&[json::<PlaceRequest>("PlaceRequest", "{}")])
    .answers(&[said::<ChannelView<'_>>(200, "The channel as it is now.")]),
    entry(
        "POST",
        "/v1/channels/{name}/test",
        "test_channel",
        "Asks a channel's provider how it is, without sending anything",
    )
    .names(&[CHANNEL])
    .headers(&[IDEMPOTENCY])
    .takes(&[json::<Nothing>("Nothing", "{}")])
    .answers(&[
        said::<TestView<'_>>(200, "What was found in time."),
        said::<OperationView<'_>>(202, "The operation, whose `result` says it later.")
            .with(&[("Location", "Where to follow it."), REPLAYED]),
    ])
    .codes(&[Code::IdempotencyConflict]),
    entry("GET", "/v1/keys", "list_keys", "The keys of a tenant, the newest first")
        .query(&[TENANT, LIMIT, CURSOR])
        .answers(&[said::<Page<KeyView>>(200, "A page of keys.")]),
    entry("POST", "/v1/keys", "create_key", "Makes a key and shows it, once")
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<KeyRequest>(
            "KeyRequest",
            r#"{"role": "producer", "label": "billing", "expires_after": "90d"}"#,
        )])
        .answers(&[said::<KeyView>(201, "The key, and the key itself in `key`.").with(&[REPLAYED]).leads_to(
            &[("read_key", "id"), ("change_key", "id"), ("rotate_key", "id"), ("revoke_key", "id")],
        )])
        .codes(&[Code::IdempotencyConflict]),
    entry("GET", "/v1/keys/{id}", "read_key", "One key").names(&[KEY]).query(&[TENANT]).answers(&[said::<
        KeyView,
    >(
        200, "The key.",
    )]),
    entry(
        "PATCH",
        "/v1/keys/{id}",
        "change_key",
        "Changes what a key is called, what it is for, or when it ends",
    )
    .names(&[KEY])
    .query(&[TENANT, FORCE])
    .needs(&[json::<KeyChange>("KeyChange", r#"{"label": "billing, new"}"#)])
    .answers(&[said::<KeyView>(200, "The key as it is now.")])
    .codes(&[Code::KeyEnded, Code::LastAdminKey]),
    entry("DELETE", "/v1/keys/{id}", "revoke_key", "Ends a key for good")
        .names(&[KEY])
        .query(&[TENANT, FORCE])
        .answers(&[said::<KeyView>(200, "The key, ended. It stays in the list.")])
        .codes(&[Code::LastAdminKey]),
    entry(
        "POST",
        "/v1/keys/{id}/rotate",
        "rotate_key",
        "Makes a key in place of another, which works a while longer",
    )
    .names(&[KEY])
    .query(&[TENANT])
    .headers(&[IDEMPOTENCY])
    .takes(&[json::<RotateRequest>("RotateRequest", r#"{"overlap": "24h"}"#)])
    .answers(&[said::<RotatedView>(201, "The new key, and the key itself in `key`.").with(&[REPLAYED])])
    .codes(&[Code::KeyEnded, Code::IdempotencyConflict]),
    entry("POST", "/v1/keys/{id}/link", "link_key", "Makes a link that lets somebody into the dashboard, once")
        .about("Whoever opens it within ten minutes is logged in with the key, without seeing it.")
        .names(&[KEY_OR_OWN])
        .query(&[TENANT])
        .answers(&[said::<LinkView>(201, "The link, which is shown this once.")])
        .codes(&[Code::KeyEnded]),
    entry("GET", "/v1/stats", "stats", "Counts of all time, or in a range with figures against their targets")
        .about(
            "Any of the parameters but `campaign` and `time_zone` asks for a range: `total` and `channels` are then what \
             happened in it, and `series`, `kpis` and the rest are there as well. A range is read by whole hours and is 92 \
             days at most, 31 by the hour. Of a template only how its messages end is counted.",
        )
        .query(&[
            param::<String>("since", "A time, or how long ago (`24h`, `7d`). A week before `until` unless given."),
            param::<String>("until", "A time, or how long ago. Now unless given."),
            param::<Step>("step", "How long a point of the series is. An hour up to two days, else a day."),
            param::<Zone>("time_zone", "Where days and weeks begin. America/Sao_Paulo unless given."),
            param::<ChannelName>("channel", "Of this channel alone."),
            param::<String>("template", "Of this template alone."),
            param::<String>("campaign", "How far this campaign is, by its id, from its beginning on."),
        ])
        .answers(&[said::<StatsView>(200, "The counts.")]),
    entry("POST", "/v1/privacy/erase", "erase_person", "Erases everything of one person")
        .about("Messages to that address, their places on lists, what they said before, attachments that nobody else has. What waits is cancelled first, and what is being sent is waited for. Claims of the last five years are spared and listed. The operation's `erasure` is the report. What was erased cannot be brought back.")
        .headers(&[IDEMPOTENCY])
        .needs(&[json::<EraseRequest>("EraseRequest", r#"{"recipient": "+55 11 98765-4321", "reason": "asked for in writing", "dry_run": true}"#)])
        .answers(&[said::<OperationView<'_>>(202, "The operation.")
            .with(&[("Location", "Where to follow it."), REPLAYED])
            .leads_to(&[("read_operation", "id"), ("cancel_operation", "id")])])
        .codes(&[Code::IdempotencyConflict]),
    entry("GET", "/v1/store", "read_store", "Whether anything is sent")
        .answers(&[said::<StandingView>(200, "Whether the store is paused, and why.")]),
    entry("POST", "/v1/store/pause", "pause_store", "Sends nothing more, of anybody's")
        .about("Messages are accepted all the while. Only for admins of the tenant `default`.")
        .needs(&[json::<PauseRequest>("PauseRequest", r#"{"reason": "the database moves"}"#)])
        .answers(&[said::<StandingView>(200, "The store as it is now.")]),
    entry("POST", "/v1/store/resume", "resume_store", "Lets everything go on")
        .about("Only for admins of the tenant `default`.")
        .takes(&[json::<Nothing>("Nothing", "{}")])
        .answers(&[said::<StandingView>(200, "The store as it is now.")]),
    entry("POST", "/v1/store/prune", "prune_store", "Removes messages that ended long ago")
        .about("Those that retention gives up, or those that ended longer ago than `older_than`. Claims stay for five years, and dead letters unless they are named. Only for admins of the tenant `default`.")
        .headers(&[IDEMPOTENCY])
        .takes(&[json::<PruneRequest>("PruneRequest", r#"{"channel": "email", "state": "sent", "older_than": "90d", "dry_run": true}"#)])
        .answers(&[said::<OperationView<'_>>(202, "The operation, whose `counts` say what went.")
            .with(&[("Location", "Where to follow it."), REPLAYED])
            .leads_to(&[("read_operation", "id"), ("cancel_operation", "id")])])
        .codes(&[Code::IdempotencyConflict]),
];
