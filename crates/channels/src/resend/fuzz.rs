//! What Resend answers, for whoever tries bytes on it. Never in a release.

use pombo_kernel::reply::Refusal;

use crate::client::Answer;

/// What a refusal says.
pub fn refusal(answer: &Answer) -> Refusal {
    super::api::refusal(answer)
}
