//! `--reveal`: to see persons whom the key's role hides.

use clap::Args;
use pombo_kernel::mask;

use super::out;

#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Reveal {
    /// Show persons whom the key's role hides; who saw what goes to the audit
    #[arg(long)]
    reveal: bool,
}

impl Reveal {
    /// What is asked for, as the API names it.
    pub(crate) fn pair(self) -> Option<(&'static str, String)> {
        self.reveal.then(|| ("reveal", "true".to_owned()))
    }

    /// The same behind an address.
    pub(crate) fn at(self, path: &str) -> String {
        match (self.reveal, path.contains('?')) {
            (false, _) => path.to_owned(),
            (true, false) => format!("{path}?reveal=true"),
            (true, true) => format!("{path}&reveal=true"),
        }
    }

    /// Says how to see more, where something of what was shown is hidden.
    pub(crate) fn hint(self, hidden: bool) {
        if hidden && !self.reveal {
            out::note("persons are masked for this key; --reveal shows them, and goes to the audit");
        }
    }
}

/// Whether something in it is hidden from this key.
pub(crate) fn hides(text: &str) -> bool {
    mask::is_hidden(text)
}
