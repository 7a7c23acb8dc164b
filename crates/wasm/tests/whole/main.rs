//! Tests of valid and faulty guests, through the same interface that a node uses.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod contract;
mod examples;
mod functions;
mod guests;
mod hostile;
mod operators;
mod sharing;
mod streams;
