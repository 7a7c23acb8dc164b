//! The one encoding of numbers, node names and partition sets: frames and gossip write them alike.
//!
//! Every value has exactly one encoding, so equal values are equal bytes, and a reader accepts nothing that the writer
//! would not have written. Readers never panic, and allocate no more than the bytes that they were given justify.
//! Integers of fixed width are little-endian.
//!
//! - [`numbers`]: variable-length integers, as protobuf's packed `uint32`.
//! - [`node`]: an address and a generation.
//! - [`runs`]: a partition set as gaps and lengths.

pub mod node;
pub mod numbers;
pub mod runs;
