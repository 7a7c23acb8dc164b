//! The standard health service: serving, as long as `/readyz` is ready.

use super::generated::treefold_server::SERVICE_NAME;
use crate::site::Site;
use futures_util::stream::{BoxStream, StreamExt, unfold};
use std::sync::Arc;
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use treefold_http::ended;

#[derive(Clone, Debug)]
pub(super) struct Readiness(Arc<Site>);

impl Readiness {
    pub(super) fn new(site: Arc<Site>) -> Self {
        Self(site)
    }

    async fn status(&self, service: &str) -> ServingStatus {
        if !service.is_empty() && service != SERVICE_NAME {
            return ServingStatus::ServiceUnknown;
        }
        let is_ready = self.0.is_ready() && self.0.client.status().await.is_ok();
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
    is_told: bool,
}

impl Watching {
    async fn next(mut self) -> Option<(Result<HealthCheckResponse, Status>, Self)> {
        if self.is_told {
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = ended(&mut self.ending) => return None,
            }
        }
        self.is_told = true;
        let status = self.readiness.status(&self.service).await;
        Some((Ok(told(status)), self))
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
            changes: self.0.readiness(),
            ending: self.0.ending.clone(),
            is_told: false,
        };
        Ok(Response::new(unfold(watching, Watching::next).boxed()))
    }
}
