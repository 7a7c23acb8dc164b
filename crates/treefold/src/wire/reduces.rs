//! The ready-made reduces that a node declares for its services.

use crate::wire::decode::{decoded, few_enough};
use crate::wire::error::{WireError, within};
use crate::wire::header::{DeclaredReduceHeader, ReducesHeader};
use treefold_core::membership::card::NAME_BYTES_MAX;
use treefold_core::message::DeclaredReduce;

/// The most reduces that one node declares.
pub(crate) const REDUCES_MAX: usize = 256;
/// The longest parameters of a reduce.
pub(crate) const REDUCE_PARAMS_BYTES_MAX: usize = 4 << 10;

/// Encodes a node's reduces.
pub(super) fn reduces_header(reduces: &[DeclaredReduce]) -> Result<ReducesHeader, WireError> {
    within("reduces", REDUCES_MAX, reduces.len())?;
    let header = |declared: &DeclaredReduce| {
        check(declared)?;
        let DeclaredReduce { name, reduce, params, field } = declared.clone();
        Ok(DeclaredReduceHeader { name, reduce, params, field })
    };
    Ok(ReducesHeader { reduces: reduces.iter().map(header).collect::<Result<_, _>>()? })
}

/// Decodes a node's reduces.
pub(super) fn reduces_of(header: &[u8]) -> Result<Vec<DeclaredReduce>, WireError> {
    few_enough(header, 1, "reduces", REDUCES_MAX)?;
    let declared = |header: DeclaredReduceHeader| {
        let DeclaredReduceHeader { name, reduce, params, field } = header;
        let declared = DeclaredReduce { name, reduce, params, field };
        check(&declared).map(|()| declared)
    };
    decoded::<ReducesHeader>(header)?.reduces.into_iter().map(declared).collect()
}

/// Checks that a declaration is short enough for the wire.
pub(crate) fn check(declared: &DeclaredReduce) -> Result<(), WireError> {
    within("reduces.name", 2 * NAME_BYTES_MAX + 1, declared.name.len())?;
    within("reduces.reduce", NAME_BYTES_MAX, declared.reduce.len())?;
    within("reduces.field", NAME_BYTES_MAX, declared.field.len())?;
    within("reduces.params", REDUCE_PARAMS_BYTES_MAX, declared.params.len())
}
