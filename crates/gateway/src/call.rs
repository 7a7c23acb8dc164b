//! A call over HTTP.

use crate::answer::{self, headers_of};
use crate::body;
use crate::caller::Caller;
use crate::problem::{Kind, Problem};
use crate::site::Site;
use crate::wishes::Wishes;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;
use treefold::{Raw, Reply, Status};

type Named = Result<Path<(String, String)>, PathRejection>;
type Queried = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// Makes a call. If the client goes away, this future is dropped, and the call is cancelled in the whole tree.
pub(crate) async fn call(
    State(site): State<Arc<Site>>,
    Caller(tenant): Caller,
    named: Named,
    query: Queried,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let bad_path = |error: PathRejection| Problem::new(Kind::BadField, error.body_text()).about("path");
    let Path((service, aggregation)) = named.map_err(bad_path)?;
    check_service(&service)?;
    tenant.may_call(&service)?;
    let bad_query = |error: QueryRejection| Problem::new(Kind::BadField, error.body_text()).about("query");
    let Query(query) = query.map_err(bad_query)?;
    let wishes = Wishes::of(query, &headers)?;
    let form = answer::form_of(&headers)?;
    let _open = tenant.open_call()?;
    let parameters = body::read(&site, &headers, body).await?;
    let name = format!("{service}/{aggregation}");
    let reply = make(&site, &name, parameters.bytes.clone(), &wishes).await?;
    answer::of(&reply, form)
}

/// Makes a call with parameters that were read, and returns an answer with at least the minimum coverage.
pub(crate) async fn make(
    site: &Site,
    name: &str,
    params: Bytes,
    wishes: &Wishes,
) -> Result<Reply<Raw>, Problem> {
    let call = wishes.apply(site.client.call_raw(name, params), &site.limits)?;
    let _counted = site.metrics.call_opened();
    let started = Instant::now();
    let reply = call.await?;
    site.metrics.count_call(started.elapsed());
    match reply.status {
        Status::Full | Status::Partial => Ok(reply),
        _ => Err(Problem::coverage(&reply, headers_of(&reply))),
    }
}

/// Refuses names that nodes would split elsewhere than a request does, and so take for another service than was allowed.
pub(crate) fn check_service(service: &str) -> Result<(), Problem> {
    if service.contains('/') {
        let detail = format!("no node in sight provides the service {service:?}");
        return Err(Problem::new(Kind::UnknownService, detail).about("service").given(service));
    }
    Ok(())
}
