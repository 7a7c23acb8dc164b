//! The door that every request passes: pages in browsers, names of this machine, and the count of answers.
//!
//! Browsers let any page send requests to any address. A page's request carries `Origin`, or `Sec-Fetch-Site`; it is
//! refused unless its origin is named in the options, or it is the gateway's own page. A page whose name was made to lead to
//! this machine (DNS rebinding) may send neither, but its name is in the header `Host`, which the listener checks before
//! ([`treefold_http::Unfit`]).
//!
//! The gateway's own page has the origin that the header `Host` names. A page whose name was made to lead here has that
//! too, so a gateway without tokens knows its own page only by an address or as `localhost`. With tokens, such a page has
//! no token: browsers keep the token for the name under which the page was opened.

use crate::problem::{Kind, Problem};
use crate::routes::refusal;
use crate::site::Site;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use treefold_http::{Unfit, names_this_machine};

/// The header by which a browser says where the page of a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The headers by which a browser says that a user goes to an address, and that the answer becomes a page of its own.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Methods that a named page may use.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST");
/// Headers that a named page may send.
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, accept, treefold-deadline, treefold-min-coverage, treefold-shape, treefold-policy, \
     treefold-waiting, treefold-hedge, treefold-slices, treefold-each, treefold-window, treefold-partitions, treefold-explain, traceparent, tracestate",
);
/// Headers that a named page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "retry-after, treefold-status, treefold-coverage, treefold-missing, treefold-call, traceparent, tracestate",
);
/// Seconds for which a browser remembers that a page may ask.
const MAX_AGE_S: HeaderValue = HeaderValue::from_static("600");

/// Lets a request pass or refuses it.
pub(crate) async fn pass(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let page = page_of(&site, &request);
    let mut response = match &page {
        Err(problem) => refusal(request.headers(), problem()),
        Ok(Some(_)) if is_preflight(&request) => allow_later_requests(),
        Ok(_) => next.run(request).await,
    };
    count(&site, &mut response);
    let headers = response.headers_mut();
    if let Ok(Some(origin)) = page {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// Refuses a request that the listener does not let in.
pub(crate) fn refuse_unfit(site: &Site, headers: &HeaderMap, unfit: &Unfit) -> Response {
    let kind = match unfit {
        Unfit::ForeignHost => Kind::Browser,
        Unfit::Encoding { .. } => Kind::ContentEncoding,
        _ => Kind::BadField,
    };
    let mut problem = Problem::new(kind, unfit.to_string()).about(unfit.field());
    if let Unfit::Encoding { given } = unfit {
        problem = problem.given(given).limit("identity");
    }
    let mut response = refusal(headers, problem);
    count(site, &mut response);
    response
}

/// Counts an answer, and tells caches and browsers how to treat it.
fn count(site: &Site, response: &mut Response) {
    site.metrics.count_answer(response.status());
    let headers = response.headers_mut();
    // The page's own files say themselves how long they may be kept.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The named origin of a page that makes the request; `None` if no page makes it, or the gateway's own.
fn page_of(site: &Site, request: &Request) -> Result<Option<HeaderValue>, fn() -> Problem> {
    let headers = request.headers();
    match headers.get(header::ORIGIN) {
        Some(origin) if site.cors.contains(origin) => Ok(Some(origin.clone())),
        None if headers.get(FETCH_SITE).is_none_or(|site| site == "none") => Ok(None),
        _ if is_own_page(site, request) || opens_own_page(request) => Ok(None),
        _ => Err(unnamed_page),
    }
}

/// The name by which the gateway is asked: the header `Host`, or its place in HTTP/2.
fn host_of(request: &Request) -> Option<&str> {
    match request.headers().get(header::HOST) {
        Some(host) => Some(host.to_str().unwrap_or("not a text")),
        None => request.uri().authority().map(Authority::as_str),
    }
}

/// True if the gateway's own page makes the request.
fn is_own_page(site: &Site, request: &Request) -> bool {
    let Some(host) = host_of(request) else { return false };
    let headers = request.headers();
    if site.tokens.is_none() && !names_this_machine(host) {
        return false;
    }
    let is_same_site = headers.get(FETCH_SITE).map(|site| site == "same-origin");
    let is_same_origin =
        headers.get(header::ORIGIN).map(|origin| is_origin_of(origin, host, site.is_encrypted));
    // Each of the two is absent in some requests of some browsers; neither may name another page.
    is_same_site.or(is_same_origin).is_some_and(|is_own| is_own) && is_same_origin.is_none_or(|is_own| is_own)
}

/// True if an origin is that of the pages of a host. A proxy may encrypt the requests of a gateway without a certificate.
fn is_origin_of(origin: &HeaderValue, host: &str, is_encrypted: bool) -> bool {
    let origin = origin.as_bytes();
    let plain = (!is_encrypted).then(|| origin.strip_prefix(b"http://")).flatten();
    let named = origin.strip_prefix(b"https://").or(plain);
    named.is_some_and(|named| !named.is_empty() && named.eq_ignore_ascii_case(host.as_bytes()))
}

/// True if a user follows a link from another page to the gateway's own. Its files are the same for everybody, and no other
/// page can frame or read them.
fn opens_own_page(request: &Request) -> bool {
    let headers = request.headers();
    request.method() == Method::GET
        && request.uri().path() == "/"
        && headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate")
        && headers.get(FETCH_DEST).is_some_and(|dest| dest == "document")
}

fn unnamed_page() -> Problem {
    let detail = "pages in a browser may use this gateway only if their origin is named (--gateway-cors); found the \
                  header Origin or Sec-Fetch-Site";
    Problem::new(Kind::Browser, detail).about("origin")
}

/// True for the question of a browser whether a page may make a request.
fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn allow_later_requests() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_S),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wishes;

    #[test]
    fn own_page_has_the_origin_of_the_host() {
        let is_own = |origin: &'static str, host: &'static str, is_encrypted| {
            is_origin_of(&HeaderValue::from_static(origin), host, is_encrypted)
        };
        assert!(is_own("http://127.0.0.1:8080", "127.0.0.1:8080", false));
        assert!(is_own("https://[::1]:8443", "[::1]:8443", true));
        assert!(is_own("https://Proxy.example", "proxy.example", false), "behind a proxy that encrypts");
        for (origin, host, is_encrypted) in [
            ("http://127.0.0.1:3000", "127.0.0.1:8080", false),
            ("http://127.0.0.1", "127.0.0.1:8080", false),
            ("http://localhost:8080", "127.0.0.1:8080", false),
            ("http://127.0.0.1:8443", "127.0.0.1:8443", true),
            ("null", "null", false),
            ("http://", "", false),
            ("ftp://127.0.0.1:8080", "127.0.0.1:8080", false),
        ] {
            assert!(!is_own(origin, host, is_encrypted), "{origin} {host}");
        }
    }

    #[test]
    fn named_pages_may_send_every_option_as_a_header() {
        let allowed = HEADERS;
        let allowed = allowed.to_str().unwrap();
        for option in wishes::OPTIONS {
            assert!(allowed.split(", ").any(|name| name == wishes::header_of(option)), "{option}");
        }
    }
}
