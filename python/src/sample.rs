//! Samples for ready reduces: what a local returns and what a worker pushes, made a partial.
//!
//! Both give the values that the endpoints of a stream would send to the filter of that name. The reduce folds a value by
//! itself before it folds it with others; so an average, for instance, becomes a sum and a count.

use crate::error::raise;
use crate::payload;
use crate::row::Form;
use bytes::Bytes;
use pyo3::prelude::*;
use std::sync::Arc;
use treefold::operators::ready;
use treefold::{Operator, OperatorError, Partition, Raw};

/// The reduce to which nothing is a sample too.
const COUNTS_NOTHING: &str = "count";

/// Makes values the partials of a ready reduce.
pub(crate) struct Samples {
    form: Form,
    counts_nothing: bool,
    /// Folds one sample, which it gets as the call's parameters.
    fold: Arc<dyn Operator>,
    partition: Partition,
}

impl Samples {
    /// Samples for the ready reduce `name`.
    ///
    /// # Errors
    /// If there is none, or it rejects its parameters.
    pub(crate) fn of_reduce(name: &str, params: &Bound<'_, PyAny>) -> PyResult<Self> {
        let params = if params.is_none() { Bytes::new() } else { payload::value(params)? };
        let sample = |_: &Partition, sample: &Raw| Ok::<_, OperatorError>(sample.clone());
        let fold = ready::sampled::<Raw, Raw>(name, &Raw(params), sample)
            .map_err(|error| raise("InvalidOption", format!("reduce {name:?}: {error}")))?;
        let partition = Partition::new("".into(), 0, 1, Arc::new(()));
        Ok(Self { form: Form::of_reduce(name), counts_nothing: name == COUNTS_NOTHING, fold, partition })
    }

    /// The reduce.
    pub(crate) fn reduce(&self) -> &dyn Operator {
        &*self.fold
    }

    /// The sample of a value, and none for `None`.
    ///
    /// # Errors
    /// If the value has not the form of the reduce's samples.
    pub(crate) fn sample(&self, value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        self.form.write(value)
    }

    /// The partial of a sample. No bytes are no sample, and add nothing.
    ///
    /// # Errors
    /// If the reduce cannot fold it.
    pub(crate) fn partial(&self, sample: Bytes) -> Result<Bytes, OperatorError> {
        if sample.is_empty() && !self.counts_nothing {
            return Ok(sample);
        }
        let partial = self.fold.local(&self.partition, &sample).now();
        partial.expect("invariant: a ready reduce never waits")
    }
}
