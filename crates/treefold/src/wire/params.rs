//! The parameters of single partitions, in a header. The common parameters are the payload of the frame.

use crate::wire::columns::{Numbers, put_number, put_set, set_alone};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::OwnParamsHeader;
use bytes::{BufMut, Bytes, BytesMut};
use treefold_core::limits::Limits;
use treefold_core::params::{OWN_ENTRY_BYTES, Params};
use treefold_core::partitions::PartitionSet;

/// Returns the header's part; `None` if no partition has parameters of its own.
pub(super) fn own_params_header(
    params: &Params<Bytes>,
    limits: &Limits,
) -> Result<Option<OwnParamsHeader>, WireError> {
    if params.own().is_empty() {
        return Ok(None);
    }
    within("params.own", limits.own_params_bytes_max, params.own_bytes())?;
    let mut header = OwnParamsHeader::default();
    let partitions: PartitionSet = params.own().iter().map(|&(partition, _)| partition).collect();
    put_set(&mut header.partitions, &partitions, limits.partitions_max, "params.own.partitions")?;
    let mut bytes = BytesMut::with_capacity(params.own_bytes());
    for (_, own) in params.own() {
        // The sum of all lengths is within the limit, so each of them fits.
        put_number(&mut header.lengths, own.len() as u32);
        bytes.put_slice(own);
    }
    header.bytes = bytes.freeze();
    Ok(Some(header))
}

/// Decodes the header's part. The parameters share the memory of its bytes.
pub(super) fn params_of(
    common: Bytes,
    own: Option<OwnParamsHeader>,
    limits: &Limits,
) -> Result<Params<Bytes>, WireError> {
    let Some(OwnParamsHeader { partitions, lengths, mut bytes }) = own else {
        return Ok(common.into());
    };
    let partitions = set_alone(&partitions, limits.partitions_max, "params.own.partitions")?;
    // A short row can name a million partitions, so the entries are counted before memory is taken.
    let counted = bytes.len().saturating_add(partitions.len().saturating_mul(OWN_ENTRY_BYTES));
    within("params.own", limits.own_params_bytes_max, counted)?;
    let mut lengths = Numbers::new(&lengths);
    if lengths.count() != partitions.len() {
        return Err(malformed("params.own.lengths"));
    }
    let mut own = Vec::with_capacity(partitions.len());
    for partition in partitions.iter() {
        let length = lengths.take().map(|length| length as usize).filter(|&length| length <= bytes.len());
        let length = length.ok_or(malformed("params.own.lengths"))?;
        own.push((partition, bytes.split_to(length)));
    }
    if !bytes.is_empty() || !lengths.is_empty() {
        return Err(malformed("params.own.lengths"));
    }
    Params::new(common, own).map_err(|_| malformed("params.own.partitions"))
}
