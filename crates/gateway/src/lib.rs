//! The front door for HTTP and gRPC: any program makes calls, opens streams, and reads a node's state.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/call/SERVICE/AGGREGATION` | the answer of a call, as `treefold call -o json` prints it |
//! | `GET /v1/streams/SERVICE` | a stream's waves as server-sent events, as lines of JSON, or over a WebSocket |
//! | `GET /v1/status`, `/v1/services`, `/v1/nodes` | the node's view of itself and of the cluster |
//! | `GET /v1/watch` | the node's view and the figures of the calls, once a second |
//! | `GET /v1/trees`, `/v1/trees/CALL` | the trees of the latest calls |
//! | `GET /v1/openapi.json` | this interface as an OpenAPI document |
//! | `GET /healthz`, `/readyz` | 200 until the node has ended; 200 while it takes calls |
//! | `GET /metrics` | the counters of the node and of this gateway |
//! | `GET /` | the live page |
//!
//! ```text
//!  socket ─▶ listener   ─▶ door ─▶ route ─▶ caller ─▶ call ─▶ the node's client
//!            limits, TLS   pages,  paths    tokens,   body,
//!                          CORS             rates     options
//! ```
//!
//! - [`Gateway`] accepts connections and drains them at the end, with the listener of `treefold_http`. `entrance` adds TLS to it, and
//!   `tls` reads the certificate.
//! - `door` is passed by every request: it refuses pages in browsers that nobody named, and counts answers.
//! - `routes` lists the paths. `caller` says which tenant asks, from [`tokens`], and holds it to its limits (`tenants`, `bucket`).
//! - `call` makes a call from a `body` with `parameters` and from `wishes`, and `answer` writes its result. `cluster` and `metrics` read the
//!   node's state.
//! - `observers` watch calls: they make traces for OpenTelemetry, and lines of slow calls (`slow`).
//! - `streams` opens a stream for one reader, with a bounded queue in front of it.
//! - `grpc` serves the same calls and streams to clients of gRPC, on the same address. It leaves out what HTTP has alone:
//!   forms, headers, pages. It is a cargo feature.
//! - `seconds` has the figures of calls by second, and `trees` the trees of some of them. `watch` sends the figures and the
//!   node's view to watchers, among them `page`, the live page.
//! - Every refusal is a `problem` with a stable type.
//!
//! **Every resource has a limit** ([`Limits`]), and a client that goes away takes its call with it: the future of a call is
//! dropped with its connection, which cancels the call in the whole tree.

mod answer;
mod body;
mod bucket;
mod call;
mod caller;
mod cluster;
mod door;
mod each_slice;
mod entrance;
mod gateway;
#[cfg(feature = "grpc")]
mod grpc;
mod limits;
mod metrics;
mod observers;
pub mod openapi;
mod options;
mod page;
mod parameters;
mod problem;
mod routes;
mod seconds;
mod site;
mod slow;
mod streams;
mod tenants;
mod tls;
pub mod tokens;
mod trees;
mod watch;
mod watched;
mod wishes;

pub use gateway::Gateway;
pub use limits::Limits;
pub use options::{GatewayOptions, SlowCallOptions, StartError, TlsFiles, check_origin};
