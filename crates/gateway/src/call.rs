//! A call over HTTP.

use crate::answer::{self, CALL, headers_of};
use crate::body::{self, Parameters};
use crate::caller::Caller;
use crate::parameters::Params;
use crate::problem::{Kind, Problem};
use crate::site::Site;
use crate::wishes::Wishes;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
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
    let Parameters { params, _permits } = body::read(&site, &headers, body).await?;
    let named = (service.as_str(), aggregation.as_str());
    let Made { reply, number } = make(&site, named, params, &wishes).await?;
    let mut response = answer::of(&reply, form)?;
    response.headers_mut().extend(number);
    Ok(response)
}

/// An answer with at least the minimum coverage.
pub(crate) struct Made {
    pub(crate) reply: Reply<Raw>,
    /// The header with the call's number, if its tree is kept.
    pub(crate) number: Option<(HeaderName, HeaderValue)>,
}

/// Makes a call of a service's aggregation with parameters that were read.
pub(crate) async fn make(
    site: &Site,
    (service, aggregation): (&str, &str),
    params: Params,
    wishes: &Wishes,
) -> Result<Made, Problem> {
    let call = site.client.call_raw(&format!("{service}/{aggregation}"), params.common.clone());
    let call = wishes.apply(params.apply(call), &site.limits)?;
    let kept = site.trees.choose(wishes.asks_to_explain()?);
    let call = if kept.is_some() { call.explain(true) } else { call };
    let _counted = site.metrics.call_opened();
    let started = Instant::now();
    let outcome = call.await;
    let took = started.elapsed();
    site.seconds.count(&outcome, took);
    let mut reply = outcome?;
    site.metrics.count_call(&reply, took);
    let number = kept.and_then(|kept| site.trees.keep(kept, (service, aggregation), &mut reply));
    let number = number.map(|number| (CALL, HeaderValue::from(number)));
    match reply.status {
        Status::Full | Status::Partial => Ok(Made { reply, number }),
        _ => {
            let mut headers = headers_of(&reply);
            headers.extend(number);
            Err(Problem::coverage(&reply, headers))
        }
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
