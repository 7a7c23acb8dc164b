//! Push waves, for applications outside Treefold: workers push their results to a node near them, the nodes
//! fold these on the way, and the master gets one result.
//!
//! ```
//! use std::time::Duration;
//! use treefold::push::{Worker, application};
//! use treefold::{Client, Node};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A node that folds for the application `words`. It would be a relay in each rack.
//!     let relay = Node::builder().relay().rack("r1").service(application("words")).start().await?;
//!
//!     // Two workers of the application, each with the result of request 7.
//!     let results = ["a\t2\nc\t1\n", "a\t1\nb\t5\n"];
//!     let mut workers = Vec::new();
//!     for (number, result) in (0..).zip(results) {
//!         let worker = Worker::builder("words", number).at([relay.addr()]).attach().await?;
//!         worker.push_last(7, result).await?;
//!         workers.push(worker);
//!     }
//!
//!     // Its master expects both of them.
//!     let client = Client::connect(relay.addr()).await?;
//!     let reply = client
//!         .announce("words/sum-lines", "", 7, (0..2).collect())
//!         .deadline(Duration::from_secs(2))
//!         .await?;
//!     assert_eq!(reply.value.unwrap().0, "a\t3\nb\t5\nc\t1\n");
//!     assert_eq!(reply.contributed.len(), 2);
//!     Ok(())
//! }
//! ```
//!
//! The master's side is a call ([`Client::announce`](crate::Client::announce)); the worker's side is
//! [`Worker`]. The reduces in [`ready`] need no code at the nodes. For a custom reduce, give each node a
//! [`Service::pushed`] with an aggregation; its local never runs. See [`treefold_core::push`] for the
//! mechanism, and docs/protocol.md for the messages.

mod connection;
mod worker;

pub use treefold_operators::ready;
pub use worker::{PushError, Worker, WorkerBuilder};

use crate::service::Service;

/// An application whose workers may attach to a node, with all [ready reduces](ready).
pub fn application(name: impl Into<String>) -> Service {
    let service = Service::new(name).pushed();
    ready::reduces().fold(service, |service, (name, reduce)| service.operator(name, reduce))
}
