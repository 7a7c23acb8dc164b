//! The commands, one file each: flags and help beside what they do.

pub mod bench;
pub mod call;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod node;
pub(crate) mod operator;
pub(crate) mod push;
pub(crate) mod replay;
pub(crate) mod shares;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod stream;
pub(crate) mod top;
pub(crate) mod topology;
pub(crate) mod tree;
pub(crate) mod up;

use crate::exit::Failure;
use crate::serve::known_services;
use node::token_of;
use std::time::Duration;
use treefold::CLUSTER_DEFAULT;
use treefold::{CallError, Client, ClientBuilder, ClusterOptions, Error, StreamError};
use treefold_network::launch::command::TOKEN_VARIABLE;

/// How long a command looks for somebody to talk to.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The failure behind an error of the library, with what to do about it.
pub fn failure_of(error: Error) -> Failure {
    match error {
        Error::Rejected(refused) => Failure::Rejected(refused),
        Error::Connect { .. } | Error::NoMembers { .. } => {
            Failure::unreachable(format!("{error}; is a node listening there? `treefold node` starts one"))
        }
        Error::Handshake { .. } => Failure::unreachable(format!(
            "{error}; --cluster names another cluster than {CLUSTER_DEFAULT:?}, {TOKEN_VARIABLE} is its token"
        )),
        Error::FrontSilent { .. } | Error::Lost | Error::Closed => {
            Failure::unreachable(format!("{error}; ask another node with --at"))
        }
        Error::Stream(error) => failure_of_stream(error),
        error => Failure::failed(error.to_string()),
    }
}

/// The failure behind the end of a stream. What was refused before anybody was asked reads as a refused call does.
fn failure_of_stream(error: StreamError) -> Failure {
    match error {
        StreamError::BadField { field, given, limit } => {
            Failure::Rejected(CallError::BadField { field, given, limit })
        }
        StreamError::UnknownService { service } => {
            Failure::Rejected(CallError::UnknownService { service: service.to_string() })
        }
        StreamError::Filter { .. } => Failure::usage(format!(
            "{error}; `treefold stream --list-filters` shows those that every node has, with their parameters"
        )),
        StreamError::Full { .. } => Failure::failed(format!("{error}; close a stream, or ask another node")),
        error => Failure::failed(error.to_string()),
    }
}

/// A client of whichever of these addresses answers first.
pub async fn connect(at: &[String], direct: bool, cluster: &str) -> Result<Client, Failure> {
    let token = token_of(None)?;
    let mut builder =
        Client::builder().at(at).direct(direct).cluster(ClusterOptions::new(cluster).token(token));
    if direct {
        // So that it can fold by itself what it knows, when the shape leaves that to the caller.
        builder = known_services().into_iter().fold(builder, ClientBuilder::service);
        #[cfg(feature = "wasm")]
        {
            builder = builder.foreign(crate::foreign::guests());
        }
    }
    let connecting = builder.connect();
    match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(client) => client.map_err(failure_of),
        Err(_) => Err(Failure::unreachable(format!(
            "nobody answers at {} within {CONNECT_TIMEOUT:?}; is a node listening there? `treefold node` starts one",
            at.join(", ")
        ))),
    }
}
