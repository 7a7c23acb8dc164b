//! Operators that are sent while the cluster runs: the questions of clients about them.
//!
//! Operators travel between nodes in frames of streams; see [`super::stream`].

use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::{OperatorHeader, OperatorReplyHeader};
use crate::wire::outcome::clipped;
use std::sync::Arc;
use treefold_core::limits::Limits;
use treefold_core::message::OperatorStatus;
use treefold_core::stream::OperatorId;

/// Bytes of the longest name of an operator's kind.
const KIND_BYTES_MAX: usize = 32;

/// The content of an answer.
type Told = Result<Vec<OperatorStatus>, Arc<str>>;

/// Encodes `result` as a header.
pub(super) fn operator_reply_header(
    id: u64,
    result: &Told,
    limits: &Limits,
) -> Result<OperatorReplyHeader, WireError> {
    let none = OperatorReplyHeader { id, ..OperatorReplyHeader::default() };
    let operators = match result {
        Ok(operators) => operators,
        Err(problem) => {
            let problem = Some(clipped(problem, limits).to_owned());
            return Ok(OperatorReplyHeader { problem, ..none });
        }
    };
    within("operators", limits.operators_max, operators.len())?;
    let column = |status: &OperatorStatus| {
        within("operators.kind", KIND_BYTES_MAX, status.kind.len())?;
        Ok(OperatorHeader {
            id: status.id.0.to_vec(),
            kind: status.kind.as_ref().to_owned(),
            bytes: status.bytes,
            uses: status.uses,
            streams: status.streams,
        })
    };
    Ok(OperatorReplyHeader { operators: operators.iter().map(column).collect::<Result<_, _>>()?, ..none })
}

/// Decodes the content of an answer.
pub(super) fn operator_reply_of(header: OperatorReplyHeader, limits: &Limits) -> Result<Told, WireError> {
    if let Some(problem) = header.problem {
        within("problem", limits.message_bytes_max, problem.len())?;
        return Ok(Err(problem.into()));
    }
    within("operators", limits.operators_max, header.operators.len())?;
    let status = |column: OperatorHeader| {
        within("operators.kind", KIND_BYTES_MAX, column.kind.len())?;
        Ok(OperatorStatus {
            id: operator_id_of(&column.id)?,
            kind: column.kind.into(),
            bytes: column.bytes,
            uses: column.uses,
            streams: column.streams,
        })
    };
    Ok(Ok(header.operators.into_iter().map(status).collect::<Result<_, _>>()?))
}

/// Decodes an operator's name.
pub(super) fn operator_id_of(bytes: &[u8]) -> Result<OperatorId, WireError> {
    bytes.try_into().map(OperatorId).map_err(|_| malformed("operator"))
}
