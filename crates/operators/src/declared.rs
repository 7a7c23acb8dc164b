//! Ready-made reduces as a service's nodes declare them, so that nodes without the service can fold its partials.
//!
//! A [ready reduce](crate::ready) gets its parameters from the declaration, or from a field of each call's parameters.

use crate::aggregation::{Partition, Placement};
use crate::codec::{Codec, NESTING_DEPTH_MAX};
use crate::erased::{Operator, Outcome};
use crate::error::{OperatorError, Result};
use bytes::Bytes;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::sync::Arc;

/// A ready-made reduce, by name, and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The name of the reduce, as in `top-k`. A name from outside this crate has a prefix, as in `exec/count`.
    pub reduce: String,
    /// The parameters of the reduce.
    pub params: ReduceParams,
}

/// The parameters of a ready-made reduce, which differ from the locals' parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReduceParams {
    /// They are the same in every call.
    Fixed(Bytes),
    /// They are this field of the call's parameters, which are a map in MessagePack.
    Field(String),
    /// They are the parameters of the call's reduce, as they are.
    OfReduce,
}

impl ReduceParams {
    /// The parameters of the reduce in a call with these parameters.
    ///
    /// # Errors
    /// If the call's parameters have no such field.
    pub fn of_call(&self, call: &Bytes) -> Result<Bytes> {
        match self {
            Self::Fixed(params) => Ok(params.clone()),
            Self::OfReduce => Ok(call.clone()),
            Self::Field(name) => field(call, name)
                .map_err(|error| OperatorError::new(format!("the call's parameters: {error}"))),
        }
    }

    /// `reduce` with these parameters: an operator that folds, and has no locals.
    pub fn given_to(self, reduce: Arc<dyn Operator>) -> Arc<dyn Operator> {
        Arc::new(Given { reduce, params: self })
    }
}

/// The bytes of a field of a map in MessagePack.
fn field(map: &Bytes, name: &str) -> Result<Bytes, String> {
    let wrong = |found: &str| format!("expected a map with the field {name:?}, found {found}");
    let mut rest: &[u8] = map;
    let fields = rmp::decode::read_map_len(&mut rest).map_err(|_| wrong("another value"))?;
    for _ in 0..fields {
        let before = rest;
        let is_it = next::<String>(&mut rest).is_some_and(|key| key == name);
        if !is_it {
            rest = before;
            next::<IgnoredAny>(&mut rest).ok_or_else(|| wrong("an invalid key"))?;
        }
        let at = map.len() - rest.len();
        next::<IgnoredAny>(&mut rest).ok_or_else(|| wrong("an invalid value"))?;
        if is_it {
            return Ok(map.slice(at..map.len() - rest.len()));
        }
    }
    Err(wrong("a map without it"))
}

/// Reads the next value of `rest`, if it is a `T`.
fn next<T: DeserializeOwned>(rest: &mut &[u8]) -> Option<T> {
    let mut reader = rmp_serde::Deserializer::new(rest);
    reader.set_max_depth(NESTING_DEPTH_MAX);
    T::deserialize(&mut reader).ok()
}

/// A reduce with parameters that are not the call's.
struct Given {
    reduce: Arc<dyn Operator>,
    params: ReduceParams,
}

impl Operator for Given {
    fn local(&self, _: &Partition, _: &Bytes) -> Outcome {
        Outcome::Now(Err(OperatorError::new(
            "this node folds partials of the service, and has none of its data",
        )))
    }

    fn reduce(&self, a: Bytes, b: Bytes, call: &Bytes) -> Outcome {
        match self.params.of_call(call) {
            Ok(params) => self.reduce.reduce(a, b, &params),
            Err(error) => Outcome::Now(Err(error)),
        }
    }

    fn reduce_all(&self, parts: Vec<Bytes>, call: &Bytes) -> Outcome {
        match self.params.of_call(call) {
            Ok(params) => self.reduce.reduce_all(parts, &params),
            Err(error) => Outcome::Now(Err(error)),
        }
    }

    fn reduces_in_pairs(&self) -> bool {
        self.reduce.reduces_in_pairs()
    }

    fn finish(&self, partial: Bytes, _: &Bytes) -> Result<Bytes> {
        Ok(partial)
    }

    fn placement(&self) -> Placement {
        self.reduce.placement()
    }

    fn holds_processor(&self) -> bool {
        self.reduce.holds_processor()
    }

    fn codecs(&self) -> (Codec, Codec) {
        self.reduce.codecs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use crate::packet::{Packet, Row};
    use crate::ready;
    use std::collections::BTreeMap;

    fn map(of: &[(&str, u32)]) -> Bytes {
        BTreeMap::from_iter(of.iter().map(|&(key, value)| (key.to_owned(), value))).encode().unwrap()
    }

    #[test]
    fn a_field_of_the_calls_parameters_is_found() {
        let call = map(&[("a", 1), ("k", 70_000)]);
        let field = |name: &str, call: &Bytes| ReduceParams::Field(name.into()).of_call(call);
        assert_eq!(field("k", &call).unwrap(), 70_000_u32.encode().unwrap());
        for (call, wrong) in [
            (call, "the call's parameters: expected a map with the field \"x\", found a map without it"),
            (Bytes::new(), "the call's parameters: expected a map with the field \"x\", found another value"),
            (
                Bytes::from_static(&[0x81]),
                "the call's parameters: expected a map with the field \"x\", found an invalid key",
            ),
        ] {
            assert_eq!(field("x", &call).unwrap_err().to_string(), wrong);
        }
    }

    #[test]
    fn a_given_reduce_folds_by_its_own_parameters_and_not_by_the_calls() {
        let (_, top) = ready::reduces().find(|(name, _)| *name == "top-k").unwrap();
        let part =
            |figures: &[f64], names: &[&str]| Row::new().f64s(figures).strs(names).packet().into_bytes();
        let parts = || vec![part(&[3.0, 1.0], &["a", "b"]), part(&[2.0], &["c"]), part(&[5.0], &["d"])];
        let kept = |given: &Arc<dyn Operator>, call: &Bytes| {
            let folded = given.reduce_all(parts(), call).now().unwrap().unwrap();
            Packet::read(&folded).unwrap().f64s(0).unwrap().iter().count()
        };
        let fixed = ReduceParams::Fixed(map(&[("k", 2)])).given_to(Arc::clone(&top));
        assert_eq!(kept(&fixed, &Bytes::from_static(b"anything")), 2);
        let by_call = ReduceParams::Field("reduce".into()).given_to(top);
        let call = BTreeMap::from([("reduce".to_string(), BTreeMap::from([("k".to_string(), 3)]))]);
        assert_eq!(kept(&by_call, &call.encode().unwrap()), 3);
        assert!(by_call.reduce(Bytes::new(), Bytes::new(), &Bytes::new()).now().unwrap().is_err());
    }
}
