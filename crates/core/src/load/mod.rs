//! How busy a node is, and how it tells.

pub mod figure;
