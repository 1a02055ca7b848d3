//! Forms: what was filled in, and that it was filled in here.

use axum::body::Body;
use axum::extract::FromRequest;
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use pombo_kernel::setup::Setup;

use super::visit::Visit;
use crate::Door;
use crate::body;
use crate::multipart;
use crate::problem::{Code, Problem};

/// The fields of a form, in order, and the files that came with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    fields: Vec<(String, String)>,
    files: Vec<(String, Bytes)>,
}

impl Form {
    pub(crate) async fn read(visit: &Visit, body: Body) -> Result<Form, Problem> {
        Form::of(visit.door(), &visit.head().headers, body).await
    }

    pub(crate) async fn of(door: &Door, headers: &HeaderMap, body: Body) -> Result<Form, Problem> {
        let limit = door.setup().limits.body_bytes();
        let held = body::whole(door, headers, body, limit).await?;
        let unreadable =
            |()| Problem::new(Code::UnsupportedMediaType, "this is not a form", "send the form of the page");
        if let Some(boundary) = multipart::boundary(headers) {
            let mut form = Form::default();
            for field in multipart::read(&held.text, &boundary).ok_or(()).map_err(unreadable)? {
                match field.file_name {
                    Some(_) => form.files.push((field.name, held.text.slice_ref(field.bytes))),
                    None => {
                        let text = std::str::from_utf8(field.bytes).map_err(|_| unreadable(()))?;
                        form.fields.push((field.name, text.to_owned()));
                    }
                }
            }
            return Ok(form);
        }
        let mut request = Request::new(Body::from(held.text.clone()));
        *request.method_mut() = http::Method::POST;
        let kind = headers.get(header::CONTENT_TYPE).cloned();
        request.headers_mut().extend(kind.map(|kind| (header::CONTENT_TYPE, kind)));
        let read = axum::Form::<Vec<(String, String)>>::from_request(request, &()).await;
        let read = read.map(|axum::Form(fields)| Form { fields, files: Vec::new() });
        read.map_err(|_| unreadable(()))
    }

    /// A form that is filled in beforehand.
    pub(crate) fn of_pairs(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Form {
        let fields = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Form { fields, files: Vec::new() }
    }

    /// The same, with something else in that field.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Form {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What was filled in; nothing if there is no such field.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.fields.iter().rev().find(|(field, _)| field == name).map_or("", |(_, value)| value.as_str())
    }

    /// What was filled in, unless that is nothing.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.get(name).trim()).filter(|value| !value.is_empty())
    }

    /// Everything under that name: what was ticked in a list.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The file that was chosen; nothing if none was.
    pub(crate) fn file(&self, name: &str) -> Option<Bytes> {
        let chosen = self.files.iter().find(|(field, file)| field == name && !file.is_empty());
        chosen.map(|(_, file)| file.clone())
    }

    /// Those of the fields that were filled in, as a document for the API.
    pub(crate) fn document(&self, names: &[&str]) -> serde_json::Value {
        let given = names.iter().filter_map(|name| Some(((*name).to_owned(), self.given(name)?.into())));
        serde_json::Value::Object(given.collect())
    }

    /// Every field, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The page that the form stood on, where it says so.
    pub(crate) fn back(&self) -> Option<&str> {
        local(self.get("back"))
    }
}

impl FromIterator<(String, String)> for Form {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(fields: T) -> Form {
        Form { fields: fields.into_iter().collect(), files: Vec::new() }
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
