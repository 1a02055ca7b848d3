//! What Evolution answers, for whoever tries bytes on it. Never in a release.

use pombo_kernel::reply::Reply;

use super::answer;
use crate::Health;
use crate::client::Answer;

/// What became of a message, if this is the answer; and how the instance is, if it is the answer to that.
pub fn read(answer: &Answer) -> (Reply, Health) {
    let reply = answer::to_a_send(answer);
    let _ = answer::is_not_on_whatsapp(&reply);
    (reply, answer::to_a_probe(answer))
}
