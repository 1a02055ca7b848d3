//! What pages are made with besides their own text: one stylesheet, one script, one picture. Their names change with
//! what they say, so that browsers may keep them for good.

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};
use sha2::{Digest, Sha256};

use super::Guest;
use crate::key::hex;
use crate::problem::Problem;
use crate::route::no_address;

pub(crate) struct Asset {
    name: String,
    kind: &'static str,
    text: &'static str,
}

impl Asset {
    fn of(stem: &str, extension: &str, kind: &'static str, text: &'static str) -> Asset {
        let name = format!("{stem}-{}.{extension}", hex(&Sha256::digest(text)[..6]));
        Asset { name, kind, text }
    }

    pub(crate) fn path(&self) -> String {
        format!("/assets/{}", self.name)
    }
}

pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::of("pombo", "css", "text/css; charset=utf-8", include_str!("pombo.css")));
pub(crate) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::of("pombo", "js", "text/javascript; charset=utf-8", include_str!("pombo.js")));
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::of("pombo", "svg", "image/svg+xml", include_str!("pombo.svg")));

/// One of them, by its name.
pub(crate) async fn file(guest: Guest) -> Result<Response, Problem> {
    let all = [&*STYLE, &*SCRIPT, &*ICON];
    let asset = all.into_iter().find(|asset| asset.name == guest.name).ok_or_else(no_address)?;
    let mut response = Response::new(Body::from(asset.text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    headers.insert(header::CACHE_CONTROL, kept);
    Ok(response)
}
