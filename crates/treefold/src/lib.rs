//! Middleware for services whose data is split over machines: **one call reaches every partition, a tree of
//! nodes folds the partial answers on their way up, and the caller gets its answer by the deadline, with an
//! exact list of the partitions that contributed.**
//!
//! A service is a *local* (computes one partition's partial answer) and a *reduce* (merges two partials
//! into one). Treefold decides everything else: which replica to ask, which tree to form, how long each
//! node waits for its children, and how to go on when a node dies in the middle of a call.
//!
//! ```
//! use std::time::Duration;
//! use treefold::operators::merge::Count;
//! use treefold::operators::merging;
//! use treefold::{Client, Node, Partition, Service};
//!
//! /// Counts the lines that contain a word.
//! fn logs() -> Service {
//!     let matching = merging("matching", |partition: &Partition, word: &String| {
//!         let lines = partition.data_as::<Vec<&str>>()?;
//!         Ok(Count(lines.iter().filter(|line| line.contains(word.as_str())).count() as u64))
//!     });
//!     Service::new("logs").aggregation("matching", matching).total(2)
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Two nodes, each with one partition. They would run on two machines.
//!     let first = Node::builder().service(logs().partition(0, vec!["error: disk", "ready"])).start().await?;
//!     let second = Node::builder()
//!         .join([first.addr()])
//!         .service(logs().partition(1, vec!["error: net", "error: disk"]))
//!         .start()
//!         .await?;
//!     assert!(second.members_at_least(2, Duration::from_secs(5)).await);
//!
//!     let client = Client::connect(second.addr()).await?;
//!     let reply = client
//!         .call::<Count>("logs/matching", &"error".to_string())
//!         .deadline(Duration::from_millis(500))
//!         .await?;
//!     assert_eq!(reply.value, Some(Count(3)));
//!     assert_eq!(reply.coverage(), 1.0);
//!     Ok(())
//! }
//! ```
//!
//! # A map of the code
//!
//! Users of the library meet:
//!
//! - [`Service`]: the aggregations and partitions that a node provides. [`Node`]: a member of a cluster.
//!   [`Cluster`]: many nodes in one process, for tests.
//! - [`Client`], [`CallBuilder`] and [`Reply`]: calls. [`CallHandle`]: an aggregation's name and types, checked once. [`Stream`] and [`endpoint`]: streams. [`push`]: applications
//!   whose workers push the results that the tree folds.
//! - [`operators`]: locals, reduces and filters. [`foreign`]: operators that are sent to running nodes.
//! - [`shares`]: how services divide a node. [`replay`]: a recorded node, played again. [`memory`]: how freed memory
//!   returns to the system.
//!
//! Below that, `driver` runs the core of a node, which makes every decision, on one thread. `workers` and `job` run
//! operators, and `shelf` keeps operators that were sent. `transport` makes connections, and `wire` encodes and decodes
//! the frames on them. `record` writes recordings. `sockets` and `entropy` wrap the system, and `park` waits without a
//! runtime. The crates of this project that need these parts use the hidden module `parts`.

mod call;
mod channel;
mod client;
mod cluster;
mod credentials;
mod discovery;
mod driver;
mod each_slice;
pub mod endpoint;
mod entropy;
mod error;
mod filter;
pub mod foreign;
mod group_keys;
mod handle;
mod isolated;
mod job;
pub mod memory;
mod node;
mod options;
mod park;
pub mod parts;
pub mod placement;
pub mod push;
mod record;
pub mod replay;
mod seeds;
mod sent_reduce;
mod service;
mod session;
pub mod shares;
mod shelf;
mod sockets;
mod stream;
mod transport;
mod verdict;
mod window;
mod wire;
mod workers;

pub use treefold_operators as operators;

pub use call::{CallBuilder, Reply};
pub use client::{Client, ClientBuilder};
pub use cluster::{Cluster, ClusterBuilder};
pub use credentials::{Credentials, CredentialsError};
pub use each_slice::EachSlice;
pub use error::{Error, StartError};
pub use handle::{CallHandle, HandleError};
pub use isolated::is_isolated;
pub use node::{CLUSTER_DEFAULT, Node, NodeBuilder};
pub use options::ClusterOptions;
pub use service::{LoadPartition, MakeReduce, PartitionData, Service};
pub use stream::{FollowedStream, Stream, StreamBuilder, StreamSender};
pub use treefold_core::call::Status;
pub use treefold_core::config::Tuning;
pub use treefold_core::error::{CallError, Missing, Reason};
pub use treefold_core::id::NodeId;
pub use treefold_core::limits::Limits;
pub use treefold_core::message::Report;
pub use treefold_core::partitions::PartitionSet;
pub use treefold_core::replica::ReplicaPolicy;
pub use treefold_core::right::{Right, Rights};
pub use treefold_core::status::NodeStatus;
pub use treefold_core::stream::{StreamError, StreamEvent, StreamWave, Synchronisation};
pub use treefold_core::tree::shape::Shape;
pub use treefold_core::wave::wait::Waiting;
pub use treefold_operators::{
    Aggregation, AsyncAggregation, Body, BodyError, Operator, OperatorError, Partition, Placement, Raw,
    SeparateAggregation, Slice, cancelled, slice_range,
};
pub use wire::Token;
