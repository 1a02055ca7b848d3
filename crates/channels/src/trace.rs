//! Which trace a call belongs to, in its headers.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use pombo_kernel::trace::{self, Context};

const PARENT: HeaderName = HeaderName::from_static(trace::PARENT);
const STATE: HeaderName = HeaderName::from_static(trace::STATE);

/// Says it, where it is known. Whoever wrote a header of that name themselves is left their word.
pub(crate) fn pass_on(context: Option<&Context>, headers: &mut HeaderMap) {
    let Some(context) = context.filter(|_| !headers.contains_key(PARENT)) else { return };
    let Ok(parent) = HeaderValue::try_from(context.parent()) else { return };
    headers.insert(PARENT, parent);
    if let Some(Ok(state)) = context.state.as_deref().map(HeaderValue::from_str) {
        headers.insert(STATE, state);
    }
}
