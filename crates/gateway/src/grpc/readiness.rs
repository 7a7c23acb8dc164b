//! The standard health service: serving, as long as `/readyz` is ready.

use super::generated::treefold_server::SERVICE_NAME;
use crate::site::Site;
use crate::watch::{places, take_place};
use futures_util::stream::{BoxStream, StreamExt, unfold};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use treefold_http::ended;

/// Pause between two looks at the node.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Readiness {
    site: Arc<Site>,
    /// Places for clients that watch, which need no token. They are others than those of `/v1/watch`.
    places: Arc<Semaphore>,
}

impl Readiness {
    pub(super) fn new(site: Arc<Site>) -> Self {
        let places = places(site.limits.watchers_max);
        Self { site, places }
    }

    async fn status(&self, service: &str) -> ServingStatus {
        if !service.is_empty() && service != SERVICE_NAME {
            return ServingStatus::ServiceUnknown;
        }
        let is_there = self.site.is_ready() && self.site.client.status().await.is_ok();
        let is_ready = is_there && self.site.has_loaded().await.unwrap_or(false);
        if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing }
    }
}

fn told(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

/// A client that is told each change.
struct Watching {
    readiness: Readiness,
    service: String,
    changes: watch::Receiver<bool>,
    ending: watch::Receiver<bool>,
    /// The status that the client was told last.
    told: Option<ServingStatus>,
    _place: OwnedSemaphorePermit,
}

impl Watching {
    async fn next(mut self) -> Option<(Result<HealthCheckResponse, Status>, Self)> {
        loop {
            if self.told.is_some() {
                tokio::select! {
                    biased;
                    changed = self.changes.changed() => changed.ok()?,
                    () = ended(&mut self.ending) => return None,
                    () = sleep(LOOK_EVERY) => {}
                }
            }
            let status = self.readiness.status(&self.service).await;
            if self.told.replace(status) != Some(status) {
                return Some((Ok(told(status)), self));
            }
        }
    }
}

#[tonic::async_trait]
impl Health for Readiness {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        match self.status(&service).await {
            ServingStatus::ServiceUnknown => {
                Err(Status::not_found(format!("no service {service:?}; there is {SERVICE_NAME}")))
            }
            status => Ok(Response::new(told(status))),
        }
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let watching = Watching {
            readiness: self.clone(),
            service: request.into_inner().service,
            changes: self.site.readiness(),
            ending: self.site.ending.clone(),
            told: None,
            _place: take_place(&self.places, self.site.limits.watchers_max)?,
        };
        Ok(Response::new(unfold(watching, Watching::next).boxed()))
    }
}
