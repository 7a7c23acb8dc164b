//! A reduce with a fault: it takes a parameter for granted.
//!
//! Called without one it panics, and its caller reads where and why, as of any Rust program. The node that it runs on
//! goes on with the next wave.

use treefold_guest::{Reduce, Result, export_reduce};

/// The partial whose turn it is, by the parameter's first byte.
pub struct Chosen;

impl Reduce for Chosen {
    fn reduce(a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(if params[0] == 0 { a } else { b });
        Ok(())
    }
}

export_reduce!(Chosen);
