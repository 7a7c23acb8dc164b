//! Operators from `treefold-operators` in a guest.
//!
//! An operator runs the same code natively and in a guest: a guest's `Reduce` passes its arguments to
//! [`reduce`]. The example `operators` is a guest with every [ready](treefold_operators::ready) operator. The
//! example `spread` is a guest for a custom typed partial.

use bytes::Bytes;
use treefold_guest::{Error, Result};
use treefold_operators::Operator;

/// Merges the partials `a` and `b` with `operator` and appends the result to `out`.
///
/// ```
/// use treefold_operators::fold::Sum;
/// use treefold_operators::{Body, folding};
///
/// let (a, b, mut sum) = (Sum(40).encode().unwrap(), Sum(2).encode().unwrap(), Vec::new());
/// treefold_guest_operators::reduce(&folding::<Sum>("sum"), &a, &b, &[], &mut sum).unwrap();
/// assert_eq!(Sum::decode(&sum.into()), Ok(Sum(42)));
/// ```
///
/// # Errors
/// The operator's error, as text. An asynchronous operator is an error too, because a guest cannot wait.
pub fn reduce(operator: &dyn Operator, a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result {
    let [a, b, params] = [a, b, params].map(Bytes::copy_from_slice);
    let both = operator
        .reduce(a, b, &params)
        .now()
        .ok_or_else(|| Error::new("the operator is asynchronous, but a guest cannot wait"))?;
    out.extend_from_slice(&both.map_err(|error| Error::new(error.to_string()))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_operators::ready;

    #[test]
    fn errors_of_the_operator_come_through() {
        let (_, top_k) = ready::reduces().find(|(name, _)| *name == "top-k").unwrap();
        let refused = reduce(&*top_k, b"x", b"y", b"", &mut Vec::new()).unwrap_err();
        assert_eq!(refused.to_string(), "top-k: parameters: missing field `k`");
    }
}
