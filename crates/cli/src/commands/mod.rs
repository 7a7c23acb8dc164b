//! The commands, one file each: flags and help beside what they do.

pub(crate) mod bench;
pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod node;
pub(crate) mod replay;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod topology;
pub(crate) mod tree;

use crate::exit::Failure;
use crate::serve::known_services;
use std::time::Duration;
use treefold::node::CLUSTER_DEFAULT;
use treefold::{Client, ClientBuilder, Error};

/// How long a command looks for somebody to talk to.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The failure behind an error of the library, with what to do about it.
pub(crate) fn failure_of(error: Error) -> Failure {
    match error {
        Error::Rejected(refused) => Failure::Rejected(refused),
        Error::Connect { .. } | Error::NoMembers { .. } => {
            Failure::unreachable(format!("{error}; is a node listening there? `treefold node` starts one"))
        }
        Error::Handshake { .. } => {
            Failure::unreachable(format!("{error}; --cluster names another cluster than {CLUSTER_DEFAULT:?}"))
        }
        Error::FrontSilent { .. } | Error::Lost | Error::Closed => {
            Failure::unreachable(format!("{error}; ask another node with --at"))
        }
        error => Failure::failed(error.to_string()),
    }
}

/// A client of whichever of these addresses answers first.
pub(crate) async fn connect(at: &[String], direct: bool, cluster: &str) -> Result<Client, Failure> {
    let mut builder = Client::builder().at(at).direct(direct).cluster(cluster);
    if direct {
        // So that it can fold by itself what it knows, when the shape leaves that to the caller.
        builder = known_services().into_iter().fold(builder, ClientBuilder::service);
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
