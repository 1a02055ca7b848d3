//! What operators answer, for whoever tries bytes on it. Never in a release.

use pombo_kernel::content::claim::Service;
use pombo_kernel::reply::Reply;

use crate::client::Answer;

/// What the operator's answer to a request of this service comes to.
pub fn read(answer: &Answer, service: &Service) -> Reply {
    super::answer::read(answer, service)
}
