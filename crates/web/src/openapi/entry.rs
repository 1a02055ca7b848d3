//! What is written down of a route: one entry of a table.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::problem::Code;

/// How a type looks.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

pub(super) fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The member by which an answer names what was made, for those that lead on from it.
pub(super) const ID: &str = "id";

pub(super) struct Entry {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// What a generated client calls it.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) about: &'static str,
    /// What stands in the braces of the path.
    pub(super) names: &'static [Param],
    pub(super) query: &'static [Param],
    pub(super) headers: &'static [Param],
    pub(super) bodies: &'static [Ask],
    pub(super) body_needed: bool,
    pub(super) answers: &'static [Answer],
    /// Problems beyond those that follow from the form of the route.
    pub(super) codes: &'static [Code],
}

/// Something in the address or in a header.
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) shape: Shape,
}

/// A body that is read.
pub(super) struct Ask {
    pub(super) media: &'static str,
    /// Under which name its schema is listed; none for what is no document of its own.
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) example: &'static str,
}

/// An answer that is no problem.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) about: &'static str,
    pub(super) media: &'static str,
    pub(super) shape: Option<Shape>,
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// Operations that take the answer's `id`, and as which parameter.
    pub(super) links: &'static [(&'static str, &'static str)],
}

const JSON: &str = "application/json";
pub(super) const NDJSON: &str = "application/x-ndjson";

pub(super) const fn entry(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Entry {
    Entry {
        method,
        path,
        id,
        summary,
        about: "",
        names: &[],
        query: &[],
        headers: &[],
        bodies: &[],
        body_needed: false,
        answers: &[],
        codes: &[],
    }
}

impl Entry {
    pub(super) const fn about(mut self, about: &'static str) -> Entry {
        self.about = about;
        self
    }

    pub(super) const fn names(mut self, names: &'static [Param]) -> Entry {
        self.names = names;
        self
    }

    pub(super) const fn query(mut self, query: &'static [Param]) -> Entry {
        self.query = query;
        self
    }

    pub(super) const fn headers(mut self, headers: &'static [Param]) -> Entry {
        self.headers = headers;
        self
    }

    /// What it reads, and cannot do without.
    pub(super) const fn needs(mut self, bodies: &'static [Ask]) -> Entry {
        self.bodies = bodies;
        self.body_needed = true;
        self
    }

    /// What it reads, if there is something.
    pub(super) const fn takes(mut self, bodies: &'static [Ask]) -> Entry {
        self.bodies = bodies;
        self
    }

    pub(super) const fn answers(mut self, answers: &'static [Answer]) -> Entry {
        self.answers = answers;
        self
    }

    pub(super) const fn codes(mut self, codes: &'static [Code]) -> Entry {
        self.codes = codes;
        self
    }

    /// The section that it stands in.
    pub(super) fn tag(&self) -> &'static str {
        match self.path.strip_prefix("/v1/") {
            Some(rest) => rest.split('/').next().unwrap_or(rest),
            None if matches!(self.path, "/healthz" | "/readyz" | "/metrics" | "/openapi.json" | "/docs") => {
                "health"
            }
            None => "drop-in",
        }
    }
}

pub(super) const fn param<T: JsonSchema>(name: &'static str, about: &'static str) -> Param {
    Param { name, about, shape: of::<T> }
}

pub(super) const LIMIT: Param =
    param::<super::request::Limit>("limit", "Most items in a page; 50 unless given.");
pub(super) const CURSOR: Param =
    param::<String>("cursor", "The `next_cursor` of the page before, as it came.");
pub(super) const REVEAL: Param = param::<bool>(
    "reveal",
    "`true` shows persons whom the key's role hides. The key must be allowed to, and it leaves a record.",
);
pub(super) const IDEMPOTENCY: Param = param::<super::request::IdempotencyKey>(
    "Idempotency-Key",
    "The same key with the same request is the same thing, however often it is sent.",
);

/// A JSON document.
pub(super) const fn json<T: JsonSchema>(name: &'static str, example: &'static str) -> Ask {
    Ask { media: JSON, name, shape: of::<T>, example }
}

/// Text of another type, with what it looks like.
pub(super) const fn text(media: &'static str, example: &'static str) -> Ask {
    Ask { media, name: "", shape: of::<String>, example }
}

pub(super) const fn said<T: JsonSchema>(status: u16, about: &'static str) -> Answer {
    Answer { status, about, media: JSON, shape: Some(of::<T>), headers: &[], links: &[] }
}

/// An answer of another type than JSON.
pub(super) const fn written(status: u16, media: &'static str, about: &'static str) -> Answer {
    Answer { status, about, media, shape: Some(of::<String>), headers: &[], links: &[] }
}

/// An answer without a body.
pub(super) const fn silent(status: u16, about: &'static str) -> Answer {
    Answer { status, about, media: JSON, shape: None, headers: &[], links: &[] }
}

impl Answer {
    pub(super) const fn with(mut self, headers: &'static [(&'static str, &'static str)]) -> Answer {
        self.headers = headers;
        self
    }

    pub(super) const fn leads_to(mut self, links: &'static [(&'static str, &'static str)]) -> Answer {
        self.links = links;
        self
    }
}

pub(super) const REPLAYED: (&str, &str) =
    ("Idempotency-Replayed", "`true` if an earlier request with the same key did it.");
