//! Guests good and bad, as a node meets them.
#![allow(clippy::unwrap_used, reason = "what surrounds tests is test too")]

mod contract;
mod examples;
mod guests;
mod hostile;
mod operators;
mod sharing;
mod streams;
