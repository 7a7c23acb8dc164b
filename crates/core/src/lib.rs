//! Every decision of Treefold, and nothing else.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod id;
pub mod membership;
pub mod partitions;
pub mod time;
pub mod tree;
