//! A store that sends nothing for now, and why.

use pombo_kernel::time::Time;
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Nothing is claimed and nothing taken over until somebody resumes; everything else goes on.
///
/// A store that comes from a backup is paused: what waits in it may have been sent since the backup was made, and only
/// a person can know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub since: Time,
    pub why: String,
}

impl Pause {
    pub(crate) fn read(bytes: &[u8]) -> Result<Pause, StoreError> {
        serde_json::from_slice(bytes)
            .map_err(|error| StoreError::Broken(format!("the store's pause: {error}")))
    }

    pub(crate) fn bytes(&self) -> Result<Vec<u8>, StoreError> {
        serde_json::to_vec(self).map_err(|error| StoreError::Broken(error.to_string()))
    }
}
