//! Whether a store and the keys that are given belong together.

use serde::{Deserialize, Serialize};

use super::{Keys, Spot, Vault, key_of};
use crate::StoreError;

/// Names in `meta`.
pub(crate) const SECRET: &str = "secret";
/// Which keys have sealed values of the store.
pub(crate) const KEYS: &str = "keys";
/// How far the store is on its way to another key, or from plain to sealed, or back.
pub(crate) const REKEY: &str = "rekey";

const PLAIN_SECRET: usize = 32;

/// What `meta` says of the vault.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    /// Sealed if the store is.
    pub(crate) secret: Vec<u8>,
    pub(crate) keys: Option<Vec<u8>>,
    pub(crate) rekey: Option<Vec<u8>>,
}

/// Rows of `meta` that are to be written.
pub(crate) type Notes = Vec<(&'static str, Vec<u8>)>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct InUse {
    pub(super) keys: Vec<String>,
}

impl InUse {
    pub(super) fn note(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Whether a rekeying turns what is plain into what is sealed, or back: meanwhile nobody can serve from the store.
#[derive(Deserialize)]
struct Turning {
    #[serde(default)]
    converts: bool,
}

fn refused(why: &str, hint: &str) -> StoreError {
    StoreError::Locked { why: why.to_owned(), hint: hint.to_owned() }
}

/// A store that is half sealed cannot be read.
pub(crate) fn unfinished() -> StoreError {
    refused(
        "it is on its way to being encrypted, or decrypted, and that did not come to its end",
        "run the same `pombo store rekey` again; it goes on where it stopped",
    )
}

pub(crate) const NAME_A_KEY: &str =
    "set `key_file`, `key` or `key_command` under [encryption] in the configuration";

impl Lock {
    pub(crate) fn is_sealed(&self) -> bool {
        self.secret.len() != PLAIN_SECRET
    }

    /// Whether it is on its way from plain to sealed or back.
    pub(crate) fn is_turning(&self) -> bool {
        let turning = self.rekey.as_deref().map(serde_json::from_slice::<Turning>);
        turning.is_some_and(|turning| !turning.is_ok_and(|turning| !turning.converts))
    }

    /// The keys that have sealed values of the store, as far as anybody noted.
    pub(super) fn in_use(&self) -> Vec<String> {
        let noted = self.keys.as_deref().and_then(|bytes| serde_json::from_slice::<InUse>(bytes).ok());
        let mut ids = noted.map(|noted| noted.keys).unwrap_or_default();
        let own = key_of(&self.secret).filter(|_| self.is_sealed()).map(|id| id.to_string());
        ids.extend(own.filter(|own| !ids.contains(own)));
        ids
    }

    /// The vault of the store, for whoever reads it as it is.
    pub(crate) fn vault(&self, keys: Option<&Keys>) -> Result<Vault, StoreError> {
        if self.is_turning() {
            return Err(unfinished());
        }
        match keys {
            _ if !self.is_sealed() => self.plain(),
            None => {
                let keys = self.in_use().join(" and ");
                Err(refused(&format!("it is encrypted with key {keys}, and no key is given"), NAME_A_KEY))
            }
            Some(keys) => {
                self.refuse_missing(keys)?;
                let secret = keys.open(&Spot::Secret, &self.secret)?;
                let secret = secret.try_into().map_err(|_| Spot::Secret.refused("has a wrong length"))?;
                Ok(Vault::sealed(keys.clone(), secret))
            }
        }
    }

    pub(super) fn plain(&self) -> Result<Vault, StoreError> {
        let secret = self.secret.as_slice().try_into();
        Ok(Vault::plain(secret.map_err(|_| Spot::Secret.refused("is missing, or has a wrong length"))?))
    }

    /// Refuses keys of which one that is needed is not there.
    pub(super) fn refuse_missing(&self, keys: &Keys) -> Result<(), StoreError> {
        let given: Vec<String> = keys.ids().map(|id| id.to_string()).collect();
        let missing: Vec<String> = self.in_use().into_iter().filter(|id| !given.contains(id)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let given = match given.as_slice() {
            [only] => format!("only key {only} is"),
            several => format!("only keys {} are", several.join(" and ")),
        };
        Err(refused(
            &format!("it is encrypted with key {}, and {given} given", missing.join(" and ")),
            "give the missing key as well, under `previous` of [encryption], or as the key if it was replaced by mistake; nothing else can read what it sealed",
        ))
    }

    /// The vault for whoever serves from the store, and what must be noted before anything is written. A store with
    /// nothing in it is sealed from the start if there are keys; `fresh` is its secret then.
    pub(crate) fn serve(
        &self,
        keys: Option<&Keys>,
        is_empty: impl FnOnce() -> Result<bool, StoreError>,
        fresh: &[u8; 32],
    ) -> Result<(Vault, Notes), StoreError> {
        let Some(keys) = keys.filter(|_| !self.is_turning()) else {
            return Ok((self.vault(None)?, Vec::new()));
        };
        let current = keys.current().to_string();
        if self.is_sealed() {
            let vault = self.vault(Some(keys))?;
            let mut in_use = self.in_use();
            if in_use.contains(&current) && self.keys.is_some() {
                return Ok((vault, Vec::new()));
            }
            in_use.extend(Some(current).filter(|current| !in_use.contains(current)));
            return Ok((vault, vec![(KEYS, InUse { keys: in_use }.note())]));
        }
        if !is_empty()? {
            return Err(refused(
                "it is not encrypted, and a key is given",
                "stop all that use it and run `pombo store rekey` to encrypt it, or take [encryption] out of the configuration",
            ));
        }
        let notes = vec![(SECRET, sealed_secret(keys, fresh)), (KEYS, InUse { keys: vec![current] }.note())];
        Ok((Vault::sealed(keys.clone(), *fresh), notes))
    }

    /// The rows of `meta` that a copy of the store has as well.
    pub(crate) fn notes(&self) -> Notes {
        let keys = self.keys.clone().map(|keys| (KEYS, keys));
        [(SECRET, self.secret.clone())].into_iter().chain(keys).collect()
    }

    /// For people and tools: whether it is encrypted, and with which keys.
    pub(crate) fn seal(&self) -> Seal {
        Seal { encrypted: self.is_sealed(), keys: self.in_use(), turning: self.is_turning() }
    }
}

/// The secret of a store that is new, as its row has it.
pub(crate) fn first_secret(keys: Option<&Keys>, fresh: &[u8; 32]) -> Vec<u8> {
    keys.map_or_else(|| fresh.to_vec(), |keys| sealed_secret(keys, fresh))
}

/// A store's secret as its row has it.
pub(super) fn sealed_secret(keys: &Keys, secret: &[u8; 32]) -> Vec<u8> {
    keys.seal(&Spot::Secret, secret)
}

/// Whether a store is encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seal {
    pub encrypted: bool,
    /// By which values are sealed; more than one until `pombo store rekey` has run.
    pub keys: Vec<String>,
    /// It is on its way from plain to encrypted, or back.
    pub turning: bool,
}
