//! A reduce with a bug: it assumes that a parameter is given.
//!
//! Without one it panics. As with any Rust program, its caller gets the message and the place of the panic.
//! The node continues with the next wave.

use treefold_guest::{Reduce, Result, export_reduce};

/// Selects one of the partials by the parameter's first byte.
pub struct Chosen;

impl Reduce for Chosen {
    fn reduce(a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(if params[0] == 0 { a } else { b });
        Ok(())
    }
}

export_reduce!(Chosen);
