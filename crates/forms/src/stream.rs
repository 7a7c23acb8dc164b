//! A stream's settings as text, and its waves as JSON.

use crate::json::{Coverage, Lost, one_each};
use crate::packet::{packet_of_json, payload_json};
use crate::parse;
use crate::value::to_message_pack;
use bytes::Bytes;
use serde::Serialize;
use std::time::Duration;
use treefold::operators::text::json;
use treefold::{CallError, Limits, PartitionSet, StreamWave, Synchronisation};

/// A wave.
#[derive(Debug, Serialize)]
pub struct WaveView {
    pub tag: u64,
    /// True if this is a late part of a wave of which another part was shown before.
    pub is_late: bool,
    pub packets: Vec<serde_json::Value>,
    /// The endpoints in it, as in `0-3,7`.
    pub contributors: String,
    pub coverage: Coverage,
    pub missing: Vec<Lost>,
}

impl WaveView {
    pub fn of(wave: &StreamWave<Bytes>, is_late: bool) -> Self {
        Self {
            tag: wave.tag,
            is_late,
            packets: wave.packets.iter().map(payload_json).collect(),
            contributors: wave.contributors.to_string(),
            coverage: coverage(wave),
            missing: one_each(&wave.missing),
        }
    }
}

/// The number of endpoints expected in a wave, and the number in it.
pub fn coverage(wave: &StreamWave<Bytes>) -> Coverage {
    let missing: usize = wave.missing.iter().map(|missing| missing.partitions.len()).sum();
    let contributed = wave.contributors.len();
    Coverage { asked: contributed + missing, contributed }
}

/// Parses the rule that completes a wave: `wait-for-all`, `time-out:MS`, `do-not-wait`.
pub fn synchronisation(text: &str) -> Result<Synchronisation, CallError> {
    let refuse = || {
        let allowed =
            "wait-for-all, time-out:MS with MS above 0 (or with a unit, as in time-out:1.5s), do-not-wait";
        CallError::bad_field("sync", text, allowed)
    };
    match text.split_once(':') {
        None if text == "wait-for-all" => Ok(Synchronisation::WaitForAll),
        None if text == "do-not-wait" => Ok(Synchronisation::DoNotWait),
        Some(("time-out", wait)) => {
            let wait = wait
                .parse()
                .map_or_else(|_| parse::duration(wait).ok(), |ms| Some(Duration::from_millis(ms)));
            let wait = wait.filter(|wait| !wait.is_zero()).ok_or_else(refuse)?;
            Ok(Synchronisation::TimeOut(wait))
        }
        _ => Err(refuse()),
    }
}

/// Parses endpoints, as in `0-9,12`.
pub fn endpoints(text: &str) -> Result<PartitionSet, CallError> {
    let max = Limits::DEFAULT.partitions_max;
    parse::partitions(text).map_err(|_| {
        CallError::bad_field("endpoints", text, format_args!("ids and ranges below {max}, as in 0-9,12"))
    })
}

/// Parses the interval at which a packet is sent again, at least `least`.
pub fn every(text: &str, least: Duration) -> Result<Duration, CallError> {
    parse::duration(text).ok().filter(|every| *every >= least).ok_or_else(|| {
        let allowed = format_args!("{least:?} or more, with its unit, as in 100ms, 1s");
        CallError::bad_field("every", text, allowed)
    })
}

/// Parses the bytes of a window.
pub fn window(text: &str) -> Result<u64, CallError> {
    let max = Limits::DEFAULT.stream_window_bytes as u64;
    text.parse().ok().filter(|bytes| (1..=max).contains(bytes)).ok_or_else(|| {
        CallError::bad_field("window", text, format_args!("1 to {max} bytes (stream_window_bytes)"))
    })
}

/// Parses a packet: JSON with `format` and `values` is a typed packet, other JSON is a MessagePack value, and anything else
/// is a text.
///
/// # Errors
/// If it is JSON that is refused everywhere (an integer beyond 64 bits, a key twice), or no packet of its format.
pub fn payload(text: &str) -> Result<Bytes, String> {
    match json::from_str::<serde_json::Value>(text) {
        Err(error) if error.is_json => Err(error.to_string()),
        Err(_) => Ok(Bytes::from(text.to_owned())),
        Ok(json) => payload_of_json(&json),
    }
}

/// Reads a packet in JSON: a typed packet if it has `format` and `values`, else a MessagePack value.
pub fn payload_of_json(json: &serde_json::Value) -> Result<Bytes, String> {
    match packet_of_json(json) {
        Some(packet) => packet,
        None => to_message_pack(json).map_err(|problem| problem.to_string()),
    }
}
