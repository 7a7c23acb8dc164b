//! The state of the node and of its cluster, and whether the node takes calls.

use crate::answer::json;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::site::Site;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use treefold::Error;
use treefold_forms::json::{NodesView, ServicesView, StatusView};

/// The node's view, as `treefold status -o json` prints it.
pub(crate) async fn status(State(site): State<Arc<Site>>, caller: Caller) -> Result<Response, Problem> {
    show(&site, &caller, StatusView::of).await
}

/// The services that the members provide.
pub(crate) async fn services(State(site): State<Arc<Site>>, caller: Caller) -> Result<Response, Problem> {
    show(&site, &caller, ServicesView::of).await
}

/// The members, the node itself first.
pub(crate) async fn nodes(State(site): State<Arc<Site>>, caller: Caller) -> Result<Response, Problem> {
    show(&site, &caller, NodesView::of).await
}

async fn show<V: Serialize>(
    site: &Site,
    Caller(tenant): &Caller,
    view: impl FnOnce(&treefold::NodeStatus) -> V,
) -> Result<Response, Problem> {
    tenant.may_read()?;
    let status = site.client.status().await?;
    Ok(json(StatusCode::OK, &view(&status)))
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// Answers 200 until the node has ended, also while it is being drained.
pub(crate) async fn health(State(site): State<Arc<Site>>) -> Result<Response, Problem> {
    match site.client.status().await {
        // A node that answers late is busy, and a restart would only take its work elsewhere.
        Ok(_) | Err(Error::FrontSilent { .. }) => Ok(json(StatusCode::OK, &Health { status: "ok" })),
        Err(error) => Err(error.into()),
    }
}

/// Answers 200 while the node takes calls.
pub(crate) async fn readiness(State(site): State<Arc<Site>>) -> Result<Response, Problem> {
    if !site.is_ready() {
        return Err(Problem::ending());
    }
    site.client.status().await?;
    if !site.has_loaded().await? {
        return Err(Problem::loading());
    }
    Ok(json(StatusCode::OK, &Health { status: "ready" }))
}
