//! A guest with every ready operator.
//!
//! Its parameters choose one: the operator's name, a line feed, and the parameters of that operator.

use treefold_guest::{Error, Reduce, Result, export_reduce};
use treefold_operators::ready;

struct Operators;

impl Reduce for Operators {
    fn reduce(a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result {
        let mut parts = params.splitn(2, |&byte| byte == b'\n');
        let (wanted, params) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (_, operator) = ready::reduces()
            .find(|(name, _)| name.as_bytes() == wanted)
            .ok_or_else(|| Error::new(format!("no operator `{}`", wanted.escape_ascii())))?;
        treefold_guest_operators::reduce(&*operator, a, b, params, out)
    }
}

export_reduce!(Operators);
