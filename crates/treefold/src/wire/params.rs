//! The parameters of single partitions and of the reduce, in a header. The common parameters are the payload of the frame.
//!
//! A build that does not know parameters of the reduce skips them, and would fold by the common ones. A [`Call`] for such a peer is
//! therefore written in another form with the same meaning: the payload is the parameters of the reduce, and each partition of the
//! peer's subtree has the common ones as its own.

use crate::wire::columns::{Numbers, put_number, put_set, set_alone};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::OwnParamsHeader;
use bytes::{BufMut, Bytes, BytesMut};
use treefold_core::limits::Limits;
use treefold_core::message::Call;
use treefold_core::params::{OWN_ENTRY_BYTES, Params, REDUCE_PARAMS};
use treefold_core::partitions::PartitionSet;

/// A peer's knowledge of parameters of the reduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReduceParams {
    /// It has not greeted yet. The form for builds without this knowledge is used, unless it is too long.
    #[default]
    Unknown,
    /// It has not greeted yet, and a call is queued that it must know to read.
    Needed,
    /// It has greeted, and knows them or not.
    Known(bool),
}

impl ReduceParams {
    /// The peer has greeted.
    pub(super) fn heed(&mut self, knows: bool) -> Result<(), WireError> {
        let needed = std::mem::replace(self, Self::Known(knows));
        if needed == Self::Needed && !knows { Err(unknown()) } else { Ok(()) }
    }

    /// Checks that the peer can read a request.
    pub(super) fn check(self, params: &Params<Bytes>) -> Result<(), WireError> {
        if self == Self::Known(false) && params.reduce().is_some() { Err(unknown()) } else { Ok(()) }
    }

    /// The payload and the header's part of a call's parameters.
    pub(super) fn written<'a>(
        &mut self,
        call: &'a Call<Bytes>,
        limits: &Limits,
    ) -> Result<(Option<&'a Bytes>, Option<OwnParamsHeader>), WireError> {
        let Some(params) = &call.params else { return Ok((None, None)) };
        if let Some(reduce) = params.reduce()
            && *self != Self::Known(true)
        {
            let partitions = match call.push {
                None => call.tree.partitions(),
                // Workers push the partials of such a call, so it has no locals.
                Some(_) => PartitionSet::new(),
            };
            let own = partitions.iter().map(|partition| (partition, params.of(partition).clone())).collect();
            let spread = Params::new(reduce.clone(), own).expect("invariant: a set has each partition once");
            match own_params_header(&spread, limits) {
                Err(_) if *self != Self::Known(false) => *self = Self::Needed,
                header => return Ok((Some(reduce), header?)),
            }
        }
        Ok((Some(&params.common), own_params_header(params, limits)?))
    }
}

fn unknown() -> WireError {
    WireError::Inexpressible { field: REDUCE_PARAMS }
}

/// Returns the header's part; `None` if neither a partition nor the reduce has parameters of its own.
pub(super) fn own_params_header(
    params: &Params<Bytes>,
    limits: &Limits,
) -> Result<Option<OwnParamsHeader>, WireError> {
    if params.own().is_empty() && params.reduce().is_none() {
        return Ok(None);
    }
    within("params.own", limits.own_params_bytes_max, params.own_bytes())?;
    within("params.reduce", limits.own_params_bytes_max, params.beside_bytes())?;
    let mut header = OwnParamsHeader { reduce: params.reduce().cloned(), ..OwnParamsHeader::default() };
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
    let Some(OwnParamsHeader { partitions, lengths, mut bytes, reduce }) = own else {
        return Ok(common.into());
    };
    let partitions = set_alone(&partitions, limits.partitions_max, "params.own.partitions")?;
    // A short row can name a million partitions, so the entries are counted before memory is taken.
    let counted = bytes.len().saturating_add(partitions.len().saturating_mul(OWN_ENTRY_BYTES));
    within("params.own", limits.own_params_bytes_max, counted)?;
    let beside = counted.saturating_add(reduce.as_ref().map_or(0, Bytes::len));
    within("params.reduce", limits.own_params_bytes_max, beside)?;
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
    let params = Params::new(common, own).map_err(|_| malformed("params.own.partitions"))?;
    Ok(params.with_reduce(reduce))
}
