//! A call over HTTP.

use crate::answer::{self, CALL, headers_of};
use crate::body::{self, Parameters};
use crate::caller::Caller;
use crate::each_slice;
use crate::observers::parent_of;
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
use treefold_traces::Parent;

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
    let named = (service.as_str(), aggregation.as_str());
    if wishes.asks_for_each()? {
        let open = tenant.open_call()?;
        let parameters = body::read(&site, &headers, body).await?;
        return each_slice::answer(site, open, named, parameters, &wishes).await;
    }
    let form = answer::form_of(&headers)?;
    let _open = tenant.open_call()?;
    let Parameters { params, _permits } = body::read(&site, &headers, body).await?;
    let Made { reply, headers: made } = make(&site, named, params, &wishes, parent_of(&headers)).await?;
    let mut response = answer::of(&reply, form)?;
    response.headers_mut().extend(made);
    Ok(response)
}

/// An answer with at least the minimum coverage.
pub(crate) struct Made {
    pub(crate) reply: Reply<Raw>,
    /// Headers with the call's place in its trace, if there are traces, and with its number, if its tree is kept.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Makes a call of a service's aggregation with parameters that were read.
pub(crate) async fn make(
    site: &Site,
    (service, aggregation): (&str, &str),
    params: Params,
    wishes: &Wishes,
    parent: Option<Parent>,
) -> Result<Made, Problem> {
    let call = site.client.call_raw(&format!("{service}/{aggregation}"), params.common.clone());
    let call = wishes.apply(params.apply(call), &site.limits)?;
    let is_asked = wishes.asks_to_explain()?;
    let kept = site.trees.choose(is_asked);
    let named = (service, aggregation);
    let observed = site.observers.begin(named, wishes.deadline(), parent.as_ref());
    let call = call.explain(is_asked || kept.is_some() || observed.wants_tree());
    let _counted = site.metrics.call_opened();
    let started = Instant::now();
    let outcome = call.await;
    let took = started.elapsed();
    site.seconds.count(&outcome, took);
    let mut headers = observed.headers();
    let mut reply = match outcome {
        Ok(reply) => reply,
        Err(error) => {
            let problem = Problem::from(error);
            observed.failed(problem.kind().name(), took);
            return Err(headers
                .into_iter()
                .fold(problem, |problem, (name, value)| problem.header(name, value)));
        }
    };
    site.metrics.count_call(&reply, took);
    let number = kept.and_then(|kept| site.trees.keep(kept, named, &reply));
    headers.extend(number.map(|number| (CALL, HeaderValue::from(number))));
    observed.answered(&mut reply, took, is_asked);
    match reply.status {
        Status::Full | Status::Partial => Ok(Made { reply, headers }),
        _ => {
            headers.extend(headers_of(&reply));
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
