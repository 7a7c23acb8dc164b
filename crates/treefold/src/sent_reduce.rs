//! Folds by operators that were sent: how a call names one, and a job that runs one.
//!
//! A master names the reduce `APPLICATION/wasm:DIGITS`. Core finds aggregations in a table that does not change, so each application
//! has one aggregation for all of them, `APPLICATION/wasm:`, and the parameters of its calls begin with the operator's 32 bytes.

use crate::foreign::{NAME_PREFIX, Sent, filter_name};
use bytes::Bytes;
use std::sync::Arc;
use treefold_core::effect::{Job, Work};
use treefold_core::stream::OperatorId;
use treefold_operators::Outcome;

/// Bytes of the operator's id, in front of the parameters.
const ID_BYTES: usize = 32;

/// A fold by an operator that was sent.
pub(crate) struct SentJob {
    pub(crate) job: Job<Bytes>,
    pub(crate) sent: Arc<Sent>,
}

/// True for the aggregation that stands for all reduces that are sent.
pub(crate) fn is_name(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, aggregation)| aggregation == NAME_PREFIX)
}

/// The parameters of the aggregation: the operator's id, and its own parameters.
pub(crate) fn with_id(id: OperatorId, params: &Bytes) -> Bytes {
    [&id.0[..], params].concat().into()
}

/// The operator that parameters begin with.
pub(crate) fn id_of_params(params: &Bytes) -> Option<OperatorId> {
    params.first_chunk::<ID_BYTES>().map(|id| OperatorId(*id))
}

/// Why an operator cannot fold; `None` if it can.
pub(crate) fn refusal(sent: &Sent) -> Option<String> {
    let name = filter_name(sent.id);
    sent.loaded
        .reduce
        .is_none()
        .then(|| format!("{name} is a {}; push waves are folded by a reduce", sent.loaded.kind))
}

/// Invokes the operator.
pub(crate) fn invoke(sent: &Sent, job: Job<Bytes>) -> Result<Outcome, &'static str> {
    let reduce = sent.loaded.reduce.as_ref().ok_or("the operator is no reduce")?;
    match job.work {
        Work::Reduce { parts, params } if params.len() >= ID_BYTES => {
            Ok(reduce.reduce_all(parts.into_vec(), &params.slice(ID_BYTES..)))
        }
        _ => Err("an operator that was sent only folds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_begin_with_the_operator() {
        let (id, params) = (OperatorId([7; 32]), Bytes::from_static(b"k"));
        let both = with_id(id, &params);
        assert_eq!((both.len(), id_of_params(&both)), (33, Some(id)));
        assert_eq!(id_of_params(&params), None);
    }

    #[test]
    fn only_the_bare_prefix_is_the_aggregation() {
        assert!(is_name("words/wasm:"));
        assert!(!is_name("words/wasm:9f86") && !is_name("words/sum") && !is_name("wasm:"));
    }
}
