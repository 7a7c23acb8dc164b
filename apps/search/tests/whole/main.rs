//! The search service over folders of real files.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that can't go on has failed, and has no public interface"
)]

mod folder;
mod indexing;
mod search;
