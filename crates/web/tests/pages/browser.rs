//! Somebody with a browser: keeps the cookie, follows nothing by itself, and fills in forms as they stand on the page.

use axum::body::Body;
use http::StatusCode;

use crate::house::{House, Reply, request};

pub(crate) struct Browser<'a> {
    pub(crate) house: &'a House,
    pub(crate) cookie: Option<String>,
    pub(crate) lang: &'static str,
}

pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

pub(crate) fn body(fields: &[(&str, &str)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}

impl<'a> Browser<'a> {
    pub(crate) fn new(house: &'a House) -> Browser<'a> {
        Browser { house, cookie: None, lang: "en" }
    }

    /// Logs in with the key of that name.
    pub(crate) async fn of(house: &'a House, who: &str) -> Browser<'a> {
        let mut browser = Browser::new(house);
        let reply = browser.enter(&[("key", &format!("key-{who}"))]).await;
        assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
        browser
    }

    pub(crate) async fn enter(&mut self, fields: &[(&str, &str)]) -> Reply {
        let reply = self.sent("POST", "/login", body(fields)).await;
        if let Some(cookie) = reply.header("set-cookie") {
            self.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        }
        reply
    }

    pub(crate) async fn sent(&self, method: &str, path: &str, body: String) -> Reply {
        self.sent_from("same-origin", method, path, body).await
    }

    /// A request that a page of that site makes.
    pub(crate) async fn sent_from(&self, site: &str, method: &str, path: &str, body: String) -> Reply {
        let mut request = request(method, path)
            .header("accept", "text/html,application/xhtml+xml")
            .header("accept-language", self.lang)
            .header("host", "pombo.example")
            .header("sec-fetch-site", site);
        if method == "POST" {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        self.house.send_elsewhere(request.body(Body::from(body)).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.sent("GET", path, String::new()).await
    }

    /// A page that there is and that may be seen.
    pub(crate) async fn page(&self, path: &str) -> String {
        let reply = self.get(path).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.text);
        assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        reply.text
    }

    /// What every form of the session carries.
    pub(crate) async fn csrf(&self) -> String {
        let page = self.get("/messages").await.text;
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form on the page");
        rest.split('"').next().unwrap().to_owned()
    }

    /// Sends a form as it stands on a page of ours.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let csrf = self.csrf().await;
        let fields: Vec<(&str, &str)> = fields.iter().copied().chain([("csrf", csrf.as_str())]).collect();
        self.sent("POST", path, body(&fields)).await
    }
}

impl Browser<'_> {
    /// Sends an empty form, without what shows that it is ours.
    pub(crate) async fn post_unchecked(&self, path: &str) -> Reply {
        self.sent("POST", path, String::new()).await
    }
}
