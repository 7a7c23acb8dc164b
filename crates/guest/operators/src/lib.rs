//! Operators from `treefold-operators` in a guest.
//!
//! An operator is the same code whether a node has it or is sent it. This guest has all that are
//! [ready](treefold_operators::ready), and its parameters choose one: the operator's name, a line feed, and the
//! parameters of that operator. A guest with one operator of your own is shorter:
//!
//! ```ignore
//! struct Words;
//!
//! impl Reduce for Words {
//!     fn reduce(a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result {
//!         folded(&folding::<GroupCount<String>>("words"), a, b, params, out)
//!     }
//! }
//! ```

use bytes::Bytes;
use treefold_guest::{Error, Reduce, Result, export_reduce};
use treefold_operators::{Operator, ready};

/// All operators that are ready.
pub struct Operators;

impl Reduce for Operators {
    fn reduce(a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result {
        let mut parts = params.splitn(2, |&byte| byte == b'\n');
        let (wanted, params) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (_, operator) = ready::reduces()
            .find(|(name, _)| name.as_bytes() == wanted)
            .ok_or_else(|| Error::new(format!("no operator `{}`", wanted.escape_ascii())))?;
        folded(&*operator, a, b, params, out)
    }
}

/// Writes to `out` what `operator` makes of two partials.
fn folded(operator: &dyn Operator, a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result {
    let [a, b, params] = [a, b, params].map(Bytes::copy_from_slice);
    let both = operator.reduce(a, b, &params).now().ok_or_else(|| Error::new("the operator waits"))?;
    out.extend_from_slice(&both.map_err(|error| Error::new(error.to_string()))?);
    Ok(())
}

export_reduce!(Operators);

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(a: &[u8], b: &[u8], params: &[u8]) -> core::result::Result<Vec<u8>, String> {
        let mut out = Vec::new();
        Operators::reduce(a, b, params, &mut out).map_err(|error| error.to_string())?;
        Ok(out)
    }

    #[test]
    fn the_parameters_name_the_operator_and_its_errors_come_through() {
        assert_eq!(reduced(b"a\t2\n", b"a\t1\nb\t5\n", b"sum-lines").unwrap(), b"a\t3\nb\t5\n");
        assert_eq!(reduced(b"", b"", b"sums").unwrap_err(), "no operator `sums`");
        let refused = reduced(b"x", b"y", b"top-k\n").unwrap_err();
        assert_eq!(refused, "top-k: parameters: missing field `k`");
    }
}
