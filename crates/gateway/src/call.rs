//! A call over HTTP.

use crate::answer::{self, CALL, headers_of};
use crate::body;
use crate::caller::Caller;
use crate::problem::{Kind, Problem};
use crate::site::Site;
use crate::wishes::Wishes;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use std::sync::Arc;
use std::time::Instant;
use treefold::Status;

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
    if service.contains('/') {
        // Nodes would split the name elsewhere than the path does, and so call another service than was allowed.
        let detail = format!("no node in sight provides the service {service:?}");
        return Err(Problem::new(Kind::UnknownService, detail).about("service").given(service));
    }
    tenant.may_call(&service)?;
    let bad_query = |error: QueryRejection| Problem::new(Kind::BadField, error.body_text()).about("query");
    let Query(query) = query.map_err(bad_query)?;
    let wishes = Wishes::of(query, &headers)?;
    let form = answer::form_of(&headers)?;
    let _open = tenant.open_call()?;
    let parameters = body::read(&site, &headers, body).await?;
    let call = site.client.call_raw(&format!("{service}/{aggregation}"), parameters.bytes.clone());
    let call = wishes.apply(call, &site.limits)?;
    let kept = site.trees.choose(wishes.asks_to_explain()?);
    let call = if kept.is_some() { call.explain(true) } else { call };
    let _counted = site.metrics.call_opened();
    let started = Instant::now();
    let outcome = call.await;
    site.seconds.count(&outcome, started.elapsed());
    let mut reply = outcome?;
    site.metrics.count_call(started.elapsed());
    let number = kept.and_then(|kept| site.trees.keep(kept, (&service, &aggregation), &mut reply));
    let number = number.map(HeaderValue::from);
    match reply.status {
        Status::Full | Status::Partial => {
            let mut response = answer::of(&reply, form);
            response.headers_mut().extend(number.map(|number| (CALL, number)));
            Ok(response)
        }
        _ => {
            let mut headers = headers_of(&reply);
            headers.extend(number.map(|number| (CALL, number)));
            Err(Problem::coverage(&reply, headers))
        }
    }
}
