//! Who sees whom messages are for, and what they say.

use std::collections::BTreeSet;

use pombo_kernel::mask::MaskedRole;
use schemars::JsonSchema;
use serde::Deserialize;

/// What roles see of persons.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Privacy {
    /// Roles whose keys see recipients and contents masked unless they reveal them, which leaves a record, for example
    /// ["viewer", "operator"]; "admin" can be added, and [] masks nothing.
    pub masked_roles: BTreeSet<MaskedRole>,
}

impl Default for Privacy {
    fn default() -> Privacy {
        Privacy { masked_roles: MaskedRole::usual() }
    }
}

#[cfg(test)]
mod tests {
    use pombo_kernel::mask::MaskedRole::{self, Admin, Operator, Viewer};

    use crate::config::{Config, Environment, Source};

    fn read(section: &str) -> Result<Vec<MaskedRole>, Vec<String>> {
        let read =
            Config::parse(&format!("[privacy]\n{section}"), Source::default(), &Environment::default());
        let read = read.map_err(|problems| {
            problems.0.into_iter().map(|it| format!("{}: {}", it.path, it.what)).collect()
        });
        read.map(|config| config.setup().masked.into_iter().collect())
    }

    #[test] // REQ AU-3
    fn viewers_and_operators_see_persons_masked_unless_the_file_says_otherwise() {
        assert_eq!(read("").unwrap(), [Viewer, Operator]);
        assert_eq!(read("masked_roles = ['viewer', 'admin']").unwrap(), [Viewer, Admin]);
        assert_eq!(read("masked_roles = []").unwrap(), []);
        for wrong in ["masked_roles = ['producer']", "masked_roles = 'viewer'", "masked_roles = ['nurse']"] {
            let found = read(wrong).unwrap_err();
            assert!(found.len() == 1 && found[0].starts_with("privacy.masked_roles"), "{wrong}: {found:?}");
        }
        assert!(read("mask = true").unwrap_err()[0].starts_with("privacy.mask"));
    }
}
