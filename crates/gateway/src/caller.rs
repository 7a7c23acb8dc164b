//! The tenant that makes a request.

use crate::problem::{Kind, Problem};
use crate::site::Site;
use crate::tenants::Tenant;
use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use std::sync::Arc;
use std::time::Instant;

/// How a page says its token in the header `Sec-WebSocket-Protocol`, since a browser's WebSocket has no other header.
const TOKEN_PROTOCOL: &str = "bearer.";

/// The tenant that makes a request. A handler that takes it is reached only with a valid token, and within the tenant's
/// rate.
pub(crate) struct Caller(pub(crate) Arc<Tenant>);

impl FromRequestParts<Arc<Site>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Problem> {
        let tenant = match &site.tokens {
            None => Arc::clone(&site.anybody),
            Some(tokens) => {
                let token = bearer(parts)?;
                let refuse =
                    || Problem::new(Kind::NoToken, "the token is not valid here").about("authorization");
                tokens.content().tenant(token).ok_or_else(refuse)?
            }
        };
        tenant.count_request(Instant::now())?;
        Ok(Self(tenant))
    }
}

/// Refuses to go on for a tenant whose token was taken back, or no longer gives a right.
pub(crate) fn check_again(
    site: &Site,
    tenant: &Tenant,
    may: impl FnOnce(&Tenant) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let Some(tokens) = &site.tokens else { return Ok(()) };
    match tokens.content().present(tenant) {
        Some(present) => may(present),
        None => Err(Problem::new(Kind::NoToken, "the token was taken back").about("authorization")),
    }
}

/// The token in the header `Authorization`, or among the protocols of a WebSocket.
fn bearer(parts: &Parts) -> Result<&str, Problem> {
    if let Some(token) = token_among_protocols(parts) {
        return Ok(token);
    }
    let given = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = given
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token.map(|(_, token)| token.trim()).ok_or_else(|| {
        let detail =
            "expected the header Authorization: Bearer TOKEN, with a token from `treefold gateway token`";
        Problem::new(Kind::NoToken, detail).about("authorization")
    })
}

fn token_among_protocols(parts: &Parts) -> Option<&str> {
    if parts.headers.contains_key(header::AUTHORIZATION) || !parts.headers.contains_key(header::UPGRADE) {
        return None;
    }
    let protocols = parts.headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    protocols.split(',').find_map(|protocol| protocol.trim().strip_prefix(TOKEN_PROTOCOL))
}
