//! Every decision of Treefold, and nothing else: no I/O, no clock, no entropy, no payload bytes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod call;
pub mod config;
pub mod effect;
pub mod error;
pub mod id;
pub mod input;
pub mod limits;
pub mod load;
pub mod membership;
pub mod message;
pub mod node;
pub mod partitions;
pub mod random;
pub mod replica;
mod schedule;
pub mod status;
pub mod time;
mod timer;
pub mod tree;
pub mod wave;
