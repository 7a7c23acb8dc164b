//! Runs: packets down that travel in one frame.
//!
//! The frame is the same for every child, so a node encodes it once and writes the same bytes to all of them. It is
//! never longer than a chunk of a payload, so it is never sent in chunks itself.

use super::header::RunHeader;
use crate::wire::error::{WireError, malformed, within};
use crate::wire::frame::{FLAG_PAYLOAD, Kind, LENGTH_BYTES, PREFIX_BYTES, Prefix};
use bytes::{BufMut, Bytes};
use prost::Message as _;
use treefold_core::id::{Tag, WaveId};
use treefold_core::limits::Limits;
use treefold_core::stream::StreamId;
use treefold_core::stream::message::{RUN_BYTES_MAX, RUN_PACKETS_MAX, StreamRun};

/// The longest header of a run: room for the largest tags and lengths of [`RUN_PACKETS_MAX`] packets.
const HEADER_BYTES_MAX: usize = 16 * RUN_PACKETS_MAX;

/// Encodes a run as a whole frame.
///
/// # Errors
/// If there are too many packets or bytes, or the sequence numbers do not fit.
pub(in crate::wire) fn frame_of(run: &StreamRun<Bytes>, limits: &Limits) -> Result<Bytes, WireError> {
    let payload_bytes = run.packets.iter().map(|(_, payload)| payload.len()).sum::<usize>();
    within("packets", RUN_PACKETS_MAX, run.packets.len())?;
    within("payload", RUN_BYTES_MAX.min(limits.payload_bytes_max), payload_bytes)?;
    if run.first.checked_add(run.packets.len() as u64).is_none() {
        return Err(WireError::Inexpressible { field: "number" });
    }
    let header = header_of(run)?;
    let header_length = header.encoded_len();
    within("header", limits.header_bytes_max, header_length)?;
    let total = PREFIX_BYTES + header_length + payload_bytes;
    let StreamId { origin, sequence } = run.stream;
    let prefix = Prefix {
        length: (total - LENGTH_BYTES) as u32,
        kind: Kind::StreamRun as u8,
        flags: FLAG_PAYLOAD,
        header_length: header_length as u32,
        tag: Tag { wave: WaveId { origin, sequence }, branch: 0 },
    };
    let mut frame = Vec::with_capacity(total);
    frame.put_slice(&prefix.to_bytes());
    header.encode(&mut frame).expect("invariant: a Vec grows as needed");
    for (_, payload) in &run.packets {
        frame.put_slice(payload);
    }
    Ok(frame.into())
}

fn header_of(run: &StreamRun<Bytes>) -> Result<RunHeader, WireError> {
    let Some((first_tag, first)) = run.packets.first() else {
        return Err(WireError::Inexpressible { field: "packets" });
    };
    let mut header = RunHeader {
        number: run.first,
        count: run.packets.len() as u32,
        tag: *first_tag,
        ..RunHeader::default()
    };
    let steps = || run.packets.windows(2).map(|pair| pair[1].0.wrapping_sub(pair[0].0));
    if steps().any(|step| step != 1) {
        header.tag_steps = steps().map(u64::cast_signed).collect();
    }
    let lengths = run.packets.iter().map(|(_, payload)| payload.len() as u32);
    if lengths.clone().all(|length| length as usize == first.len()) {
        header.lengths.push(first.len() as u32);
    } else {
        header.lengths.extend(lengths);
    }
    Ok(header)
}

/// Decodes a run. Its packets share the payload's memory. `header` is reused.
pub(in crate::wire) fn run_of(
    stream: StreamId,
    header: &mut RunHeader,
    bytes: &[u8],
    payload: Option<Bytes>,
    limits: &Limits,
) -> Result<StreamRun<Bytes>, WireError> {
    within("header", HEADER_BYTES_MAX.min(limits.header_bytes_max), bytes.len())?;
    header.clear();
    header.merge(bytes).map_err(|_| malformed("header"))?;
    let payload = payload.ok_or(malformed("payload"))?;
    within("payload", RUN_BYTES_MAX, payload.len())?;
    let count = header.count as usize;
    within("packets", RUN_PACKETS_MAX, count)?;
    if count == 0 {
        return Err(malformed("count"));
    }
    if header.number.checked_add(count as u64).is_none() {
        return Err(malformed("number"));
    }
    if !header.tag_steps.is_empty() && header.tag_steps.len() != count - 1 {
        return Err(malformed("tag_steps"));
    }
    if header.lengths.len() != 1 && header.lengths.len() != count {
        return Err(malformed("lengths"));
    }
    let (mut packets, mut tag, mut at) = (Vec::with_capacity(count), header.tag, 0_usize);
    for number in 0..count {
        if number > 0 {
            tag = tag.wrapping_add(header.tag_steps.get(number - 1).map_or(1, |step| step.cast_unsigned()));
        }
        let length = if header.lengths.len() == 1 { header.lengths[0] } else { header.lengths[number] };
        let end = at.saturating_add(length as usize);
        if end > payload.len() {
            return Err(malformed("lengths"));
        }
        packets.push((tag, payload.slice(at..end)));
        at = end;
    }
    if at != payload.len() {
        return Err(malformed("lengths"));
    }
    Ok(StreamRun { stream, first: header.number, packets })
}
