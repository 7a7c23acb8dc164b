//! What tests of gRPC ask, and the problems that they get.

pub use crate::channel::{Channel, pb};
use crate::world::World;
use prost::Message;
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

/// The problem in the details of a status.
pub fn problem(status: &Status) -> pb::Problem {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Details {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(message, repeated, tag = "3")]
        details: Vec<Any>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Any {
        #[prost(string, tag = "1")]
        type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }
    let details = Details::decode(status.details()).unwrap();
    assert_eq!(details.code, status.code() as i32, "{status:?}");
    assert!(details.details[0].type_url.ends_with("/treefold.v1.Problem"));
    pb::Problem::decode(details.details[0].value.as_slice()).unwrap()
}

/// The name of the problem, which the metadata has too.
pub fn name(status: &Status) -> String {
    let problem = problem(status);
    let name = problem.r#type.strip_prefix("urn:treefold:problem:").unwrap().to_owned();
    assert_eq!(status.metadata().get("treefold-problem").unwrap(), name.as_str());
    name
}
