//! Copies from a real server that speaks S3, over real connections.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod copies;
mod hostile;
mod store;
