//! Samples for ready reduces: what a local returns and what a worker pushes, made a partial.
//!
//! Both give the values that the endpoints of a stream would send to the filter of that name. The reduce folds a value by
//! itself before it folds it with others; so an average, for instance, becomes a sum and a count.
//!
//! The reduce's parameters are fixed with the service, or are a field of each call's parameters. The field is read here,
//! so that a fold needs no interpreter.

use crate::error::raise;
use crate::payload;
use crate::row::Form;
use bytes::Bytes;
use pyo3::prelude::*;
use treefold::OperatorError;
use treefold::operators::erased::Outcome;
use treefold::operators::ready::Ready;
use treefold::operators::{Declared, ReduceParams};

/// The reduce to which nothing is a sample too.
const COUNTS_NOTHING: &str = "count";

/// Makes values the partials of a ready reduce.
pub(crate) struct Samples {
    form: Form,
    counts_nothing: bool,
    reduce: Ready,
    params: ReduceParams,
}

/// Parameters of a reduce as Python gives them; `None` for none.
///
/// # Errors
/// If they cannot travel.
pub(crate) fn fixed(params: &Bound<'_, PyAny>) -> PyResult<ReduceParams> {
    let params = if params.is_none() { Bytes::new() } else { payload::value(params)? };
    Ok(ReduceParams::Fixed(params))
}

impl Samples {
    /// Samples for the ready reduce `name`.
    ///
    /// # Errors
    /// If there is none, or it rejects its parameters.
    pub(crate) fn of_reduce(name: &str, params: ReduceParams) -> PyResult<Self> {
        let refused = |error| raise("InvalidOption", format!("reduce {name:?}: {error}"));
        let reduce = Ready::of(name).map_err(refused)?;
        if let ReduceParams::Fixed(params) = &params {
            reduce.check(params).map_err(refused)?;
        }
        Ok(Self { form: Form::of_reduce(name), counts_nothing: name == COUNTS_NOTHING, reduce, params })
    }

    /// The reduce.
    pub(crate) fn reduce(&self) -> &Ready {
        &self.reduce
    }

    /// The reduce, as other nodes may have it.
    pub(crate) fn declared(&self) -> Declared {
        Declared { reduce: self.reduce.name().to_owned(), params: self.params.clone() }
    }

    /// Folds two partials of a call.
    pub(crate) fn folded(&self, a: Bytes, b: Bytes, call: &Bytes) -> Outcome {
        match self.params.of_call(call) {
            Ok(params) => self.reduce.reduce().reduce(a, b, &params),
            Err(error) => Outcome::Now(Err(error)),
        }
    }

    /// Folds several partials of a call.
    pub(crate) fn folded_all(&self, parts: Vec<Bytes>, call: &Bytes) -> Outcome {
        match self.params.of_call(call) {
            Ok(params) => self.reduce.reduce().reduce_all(parts, &params),
            Err(error) => Outcome::Now(Err(error)),
        }
    }

    /// The sample of a value, and none for `None`.
    ///
    /// # Errors
    /// If the value has not the form of the reduce's samples.
    pub(crate) fn sample(&self, value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        self.form.write(value)
    }

    /// The partial of a partition's sample in a call with these parameters. No bytes are no sample, and add nothing.
    ///
    /// # Errors
    /// If the reduce cannot fold it, or rejects the call's parameters.
    pub(crate) fn partial(
        &self,
        partition: u32,
        sample: Bytes,
        call: &Bytes,
    ) -> Result<Bytes, OperatorError> {
        if sample.is_empty() && !self.counts_nothing {
            return Ok(sample);
        }
        self.reduce.partial(partition, sample, &self.params.of_call(call)?)
    }
}
