//! What a page shows, before it is put into its frame.

use maud::{Markup, Render, html};
use sha2::{Digest, Sha256};

use crate::key::hex;

/// A page: a title, and parts from top to bottom. Those that are live are sent anew when they change.
#[derive(Default)]
pub(crate) struct Sheet {
    pub(crate) title: String,
    /// What stands beside the title: a state, buttons.
    pub(crate) beside: Option<Markup>,
    pub(crate) parts: Vec<Part>,
    pub(crate) status: Option<http::StatusCode>,
}

pub(crate) struct Part {
    pub(crate) id: Option<&'static str>,
    pub(crate) html: Markup,
}

impl Sheet {
    pub(crate) fn new(title: impl Into<String>) -> Sheet {
        Sheet { title: title.into(), ..Sheet::default() }
    }

    /// Puts that beside the title.
    pub(crate) fn beside(self, html: Markup) -> Sheet {
        Sheet { beside: Some(html), ..self }
    }

    /// Adds a part that stays as it is.
    pub(crate) fn still(mut self, html: Markup) -> Sheet {
        self.parts.push(Part { id: None, html });
        self
    }

    /// Adds a part that is kept up to date while somebody looks. Its id is an element's.
    ///
    /// The same facts must give the same bytes, or it is sent again and again: no times relative to now in it, but those
    /// of [`parts::ago`](super::parts::ago), which the reader's clock keeps.
    pub(crate) fn live(mut self, id: &'static str, html: Markup) -> Sheet {
        self.parts.push(Part { id: Some(id), html });
        self
    }

    pub(crate) fn is_live(&self) -> bool {
        self.parts.iter().any(|part| part.id.is_some())
    }
}

impl Part {
    /// What tells one state of the part from another.
    pub(crate) fn version(&self) -> String {
        hex(&Sha256::digest(self.html.0.as_bytes())[..6])
    }
}

impl Render for Part {
    fn render(&self) -> Markup {
        match self.id {
            None => self.html.clone(),
            Some(id) => html! { div id=(id) .part data-part=(self.version()) { (self.html) } },
        }
    }
}
