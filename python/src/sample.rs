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

/// The reduce to which nothing is a sample too.
const COUNTS_NOTHING: &str = "count";

/// Makes values the partials of a ready reduce.
pub(crate) struct Samples {
    form: Form,
    counts_nothing: bool,
    reduce: Ready,
    params: Params,
}

/// The parameters of the reduce.
pub(crate) enum Params {
    Fixed(Bytes),
    /// They are this field of the call's parameters.
    Field(String),
}

impl Params {
    /// Parameters as Python gives them; `None` for none.
    ///
    /// # Errors
    /// If they cannot travel.
    pub(crate) fn fixed(params: &Bound<'_, PyAny>) -> PyResult<Self> {
        let params = if params.is_none() { Bytes::new() } else { payload::value(params)? };
        Ok(Self::Fixed(params))
    }

    fn of_call(&self, call: &Bytes) -> Result<Bytes, OperatorError> {
        match self {
            Self::Fixed(params) => Ok(params.clone()),
            Self::Field(name) => payload::field(call, name)
                .map_err(|error| OperatorError::new(format!("the call's parameters: {error}"))),
        }
    }
}

impl Samples {
    /// Samples for the ready reduce `name`.
    ///
    /// # Errors
    /// If there is none, or it rejects its parameters.
    pub(crate) fn of_reduce(name: &str, params: Params) -> PyResult<Self> {
        let refused = |error| raise("InvalidOption", format!("reduce {name:?}: {error}"));
        let reduce = Ready::of(name).map_err(refused)?;
        if let Params::Fixed(params) = &params {
            reduce.check(params).map_err(refused)?;
        }
        Ok(Self { form: Form::of_reduce(name), counts_nothing: name == COUNTS_NOTHING, reduce, params })
    }

    /// The reduce.
    pub(crate) fn reduce(&self) -> &Ready {
        &self.reduce
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
