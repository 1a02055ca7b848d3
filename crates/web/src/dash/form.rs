//! Forms: what was filled in, and that it was filled in here.

use axum::body::Body;
use axum::extract::FromRequest;
use http::{HeaderMap, Request, header};
use pombo_kernel::setup::Setup;

use super::visit::Visit;
use crate::Door;
use crate::body;
use crate::problem::{Code, Problem};

/// The fields of a form, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub(crate) async fn read(visit: &Visit, body: Body) -> Result<Form, Problem> {
        Form::of(visit.door(), &visit.head().headers, body).await
    }

    pub(crate) async fn of(door: &Door, headers: &HeaderMap, body: Body) -> Result<Form, Problem> {
        let limit = door.setup().limits.body_bytes();
        let held = body::whole(door, headers, body, limit).await?;
        let kind = headers.get(header::CONTENT_TYPE).cloned();
        let mut request = Request::new(Body::from(held.text.clone()));
        *request.method_mut() = http::Method::POST;
        request.headers_mut().extend(kind.map(|kind| (header::CONTENT_TYPE, kind)));
        let read = axum::Form::<Vec<(String, String)>>::from_request(request, &()).await;
        let unreadable =
            |_| Problem::new(Code::UnsupportedMediaType, "this is not a form", "send the form of the page");
        read.map(|axum::Form(fields)| Form(fields)).map_err(unreadable)
    }

    /// What was filled in; nothing if there is no such field.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().rev().find(|(field, _)| field == name).map_or("", |(_, value)| value.as_str())
    }

    /// What was filled in, unless that is nothing.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.get(name).trim()).filter(|value| !value.is_empty())
    }

    /// Everything under that name: what was ticked in a list.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Every field, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The page that the form stood on, where it says so.
    pub(crate) fn back(&self) -> Option<&str> {
        local(self.get("back"))
    }
}

impl FromIterator<(String, String)> for Form {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(fields: T) -> Form {
        Form(fields.into_iter().collect())
    }
}

/// An address of this site, and of no other.
pub(crate) fn local(path: &str) -> Option<&str> {
    let rest = path.strip_prefix('/')?;
    let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (plain && !rest.starts_with('/')).then_some(path)
}

/// Refuses what another site's page sends. A browser says where a form comes from; whoever says nothing is no browser,
/// and still has to know what the form carries.
pub(crate) fn of_this_site(headers: &HeaderMap, setup: &Setup) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let own = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            let public = setup.alerts.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
            origin == public || host.is_some_and(|host| text("host") == Some(host))
        }
        (None, None) => true,
    };
    own.then_some(()).ok_or_else(|| {
        Problem::new(
            Code::Forbidden,
            "this form was sent by a page of another site",
            "open the dashboard itself and do it there",
        )
    })
}

/// A form that does not carry what the session's forms carry.
pub(crate) fn not_ours() -> Problem {
    Problem::new(
        Code::Forbidden,
        "this form is not of this session: it is older than the log-in, or was made elsewhere",
        "open the page again and send the form anew",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_site_are_gone_back_to() {
        for good in ["/", "/messages", "/messages?state=failed&cursor=x", "/dead/cause_1"] {
            assert_eq!(local(good), Some(good));
        }
        for bad in
            ["", "messages", "//evil.example", "/\\evil.example", "https://evil.example", "/a b", "/a\r\nx"]
        {
            assert_eq!(local(bad), None, "{bad}");
        }
    }
}
