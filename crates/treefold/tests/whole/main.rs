//! Nodes, clients, streams and push waves over real sockets on loopback, seen from outside.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod batches;
mod calls;
mod certificates;
mod each_slice;
mod examples;
mod failures;
mod figures;
mod folds;
mod isolated;
mod kept_trees;
mod killed_in_mid_stream;
mod learning;
mod names;
mod operators;
mod own_params;
mod placement;
mod pushes;
mod quotas;
mod recording;
mod reduce_params;
mod restarts;
mod seeds;
mod sent_reduces;
mod slices;
mod strangers;
mod streams;
mod totals;
mod udp;
mod uses;
