//! The live page: a few files that the program carries, the same for everybody and without any state of the cluster.
//!
//! The page reads the state by the interface that every program uses, so it needs the same tokens. Its files need none. They
//! are built from `ui/`; a test holds them equal to their sources. A strict policy lets the page load and reach nothing but
//! this gateway.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use std::sync::LazyLock;

/// The page may use its own scripts, styles and pictures, and the gateway; nothing may frame it.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);
/// Other sites' pages may not use the files.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// A browser keeps the files, and asks each time whether they have changed.
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

/// The files of the page.
pub(crate) static FILES: LazyLock<[File; 3]> = LazyLock::new(|| {
    [
        File::new("/", "text/html; charset=utf-8", include_bytes!("../page/index.html")),
        File::new("/page.js", "text/javascript; charset=utf-8", include_bytes!("../page/page.js")),
        File::new("/page.css", "text/css; charset=utf-8", include_bytes!("../page/page.css")),
    ]
});

/// A file of the page.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: &'static str,
    media_type: &'static str,
    content: &'static [u8],
    /// The hash of the content, in quotes.
    tag: HeaderValue,
}

impl File {
    fn new(path: &'static str, media_type: &'static str, content: &'static [u8]) -> Self {
        let hash = digest(&SHA256, content);
        let text = format!("\"{}\"", URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]));
        let tag = HeaderValue::try_from(text).expect("invariant: base64 makes a header");
        Self { path, media_type, content, tag }
    }

    /// The file, or 304 if the browser has it.
    pub(crate) fn answer(&self, asked: &HeaderMap) -> Response {
        let tag = self.tag.clone();
        let mut response = if has(asked, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type))], self.content)
                .into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, tag);
        headers.insert(header::CACHE_CONTROL, ASK_AGAIN);
        headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
        response
    }
}

/// True if the browser has the content with this tag.
fn has(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    let given = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = given.flat_map(|value| value.split(','));
    tags.any(|given| {
        let given = given.trim();
        given == "*" || given.strip_prefix("W/").unwrap_or(given).as_bytes() == tag.as_bytes()
    })
}
