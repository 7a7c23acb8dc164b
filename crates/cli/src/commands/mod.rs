//! The commands, one file each, with their flags, help texts and implementation.

#[cfg(feature = "full")]
pub mod bench;
pub mod call;
#[cfg(feature = "full")]
pub(crate) mod completions;
#[cfg(feature = "full")]
pub(crate) mod config;
pub(crate) mod demo;
#[cfg(feature = "full")]
pub(crate) mod doctor;
#[cfg(feature = "full")]
pub(crate) mod faces;
#[cfg(feature = "mirrors")]
pub(crate) mod front_end;
#[cfg(feature = "full")]
pub(crate) mod gateway;
#[cfg(feature = "full")]
pub(crate) mod index;
#[cfg(feature = "full")]
pub(crate) mod keys;
#[cfg(feature = "full")]
pub(crate) mod man;
#[cfg(feature = "mirrors")]
pub(crate) mod mirror;
#[cfg(feature = "full")]
pub(crate) mod more;
#[cfg(feature = "full")]
pub(crate) mod new;
pub(crate) mod node;
#[cfg(feature = "full")]
pub(crate) mod operator;
#[cfg(feature = "full")]
pub(crate) mod placement;
#[cfg(feature = "full")]
pub(crate) mod push;
#[cfg(feature = "full")]
pub(crate) mod replay;
#[cfg(feature = "full")]
pub(crate) mod shares;
#[cfg(feature = "full")]
pub(crate) mod sim;
#[cfg(feature = "full")]
pub(crate) mod sql;
pub(crate) mod status;
#[cfg(feature = "full")]
pub(crate) mod stream;
#[cfg(feature = "full")]
pub(crate) mod top;
#[cfg(feature = "full")]
pub(crate) mod topology;
pub(crate) mod traced;
#[cfg(feature = "full")]
pub(crate) mod tree;
#[cfg(feature = "full")]
pub(crate) mod up;
#[cfg(feature = "full")]
pub(crate) mod vectors;

use crate::exit::Failure;
use crate::serve::known_services;
use crate::trust::{KEYS_VARIABLE, TOKEN_VARIABLE, cluster_of_environment};
use std::time::Duration;
use treefold::CLUSTER_DEFAULT;
use treefold::parts::Seed;
use treefold::{CallError, Client, ClientBuilder, Error, StreamError};

/// Limit on the time to connect to a node.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Converts an error of the library to a failure that also says what to do.
pub fn failure_of(error: Error) -> Failure {
    match error {
        Error::Rejected(refused) => Failure::Rejected(refused),
        Error::Connect { .. } | Error::NoMembers { .. } => {
            Failure::unreachable(format!("{error}; check the address, or start a node with `treefold node`"))
        }
        Error::Handshake { .. } => Failure::unreachable(format!(
            "{error}; give the cluster's name with --cluster (default {CLUSTER_DEFAULT:?}), and in the environment your \
             keys ({KEYS_VARIABLE}) or its token ({TOKEN_VARIABLE})"
        )),
        Error::FrontSilent { .. } | Error::Lost | Error::Closed => {
            Failure::unreachable(format!("{error}; give another node with --at"))
        }
        Error::UnknownAggregation { .. } | Error::InvalidParams { .. } => Failure::usage(error.to_string()),
        Error::Stream(error) => failure_of_stream(error),
        error => Failure::failed(error.to_string()),
    }
}

/// Converts the error that ended a stream.
///
/// A stream that was refused at its opening is reported like a rejected call.
fn failure_of_stream(error: StreamError) -> Failure {
    match error {
        StreamError::BadField { field, given, limit } => {
            Failure::Rejected(CallError::BadField { field, given, limit })
        }
        StreamError::UnknownService { service } => {
            Failure::Rejected(CallError::UnknownService { service: service.to_string() })
        }
        StreamError::Denied { right, service } => {
            Failure::Rejected(CallError::Denied { right: right.to_string(), service: service.to_string() })
        }
        StreamError::Filter { .. } => Failure::usage(format!(
            "{error}; `treefold stream --list-filters` lists the filters of every node, with their parameters"
        )),
        StreamError::Full { .. } => Failure::failed(format!("{error}; close a stream, or ask another node")),
        error => Failure::failed(error.to_string()),
    }
}

/// Connects to the first of these addresses that answers.
pub async fn connect(at: &[String], direct: bool, cluster: &str) -> Result<Client, Failure> {
    let mut builder = Client::builder().at(at).direct(direct).cluster(cluster_of_environment(cluster)?);
    if direct {
        // With these services the client can fold by itself, if the shape leaves the last fold to the caller.
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
            "no node answers at {} within {CONNECT_TIMEOUT:?}; check the address{}, or start a node with \
             `treefold node`",
            at.join(", "),
            if at.iter().any(|at| Seed::name_in_dns(at).is_some()) { " and the name servers" } else { "" },
        ))),
    }
}
