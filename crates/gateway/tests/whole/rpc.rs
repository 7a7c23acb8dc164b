//! Requests of the tests of gRPC, and the problems that they get.

pub use crate::channel::{Channel, pb, problem};
use crate::world::World;
use tonic::{Request, Status};

impl Channel {
    /// Calls `sums/sum`.
    pub async fn sum(&mut self, json: &str, options: pb::CallOptions) -> Result<pb::CallReply, Status> {
        Ok(self.ask("Call", Request::new(sum(json, options))).await?.into_inner())
    }
}

/// The request of a call of `sums/sum` with an answer in JSON.
pub fn sum(json: &str, options: pb::CallOptions) -> pb::CallRequest {
    pb::CallRequest {
        service: "sums".to_owned(),
        aggregation: "sum".to_owned(),
        params: Some(pb::call_request::Params::Json(json.to_owned())),
        options: Some(options),
        form: pb::Form::Json.into(),
        params_for: Vec::new(),
        reduce_params: None,
    }
}

impl World {
    pub async fn channel(&self) -> Channel {
        Channel::to(self.addr()).await
    }
}

/// The name of the problem, which the metadata has too.
pub fn name(status: &Status) -> String {
    let problem = problem(status);
    let name = problem.r#type.strip_prefix("urn:treefold:problem:").unwrap().to_owned();
    assert_eq!(status.metadata().get("treefold-problem").unwrap(), name.as_str());
    name
}
