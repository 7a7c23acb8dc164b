//! Core from outside: clusters of nodes on a fake clock, and transcripts of their inputs and effects.
#![allow(unreachable_pub, clippy::expect_used, reason = "a test program has no public interface")]

mod clusters;
mod transcripts;
