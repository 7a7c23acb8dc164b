//! The tenant that makes a request.

use crate::problem::{Kind, Problem};
use crate::site::Site;
use crate::tenants::Tenant;
use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use std::sync::Arc;
use std::time::Instant;

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

/// The token in the header `Authorization`.
fn bearer(parts: &Parts) -> Result<&str, Problem> {
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
