//! Every limit of mirroring, by name.
//!
//! An event beyond a limit is refused with an error that names the field and the limit. A queue at its limit
//! stops its sender; a table at its limit treats new entries as if no rule applied to them.

use serde::{Deserialize, Serialize};

/// Limits of one feed at an origin, a mirror or a reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MirrorLimits {
    /// Most bytes of a key.
    pub key_bytes_max: usize,
    /// Most bytes of an event's encoded fields.
    pub fields_bytes_max: usize,
    /// Most fields of one event.
    pub fields_max: usize,
    /// Most bytes of an event's opaque body.
    pub body_bytes_max: usize,
    /// Most incoming streams of an origin.
    pub streams_max: usize,
    /// Bytes of a packet above which no further event is added to it.
    pub batch_bytes_max: usize,
    /// Bytes of events that wait at the origin to be sent. Above it, the origin refuses events as busy.
    pub ready_bytes_max: usize,
    /// Bytes of mirrored events that are not committed. Above it, the origin refuses events as busy.
    pub backup_bytes_max: usize,
    /// Bytes of committed events that a mirror keeps for readers that resume.
    pub resume_bytes_max: usize,
    /// Bytes of events that a reader may be behind, or the bytes of a snapshot, if these are more. A reader further behind
    /// is told so, and gets a snapshot.
    pub lag_bytes_max: usize,
    /// Bytes of packets that a mirror may be behind the mirror that is furthest ahead. Packets pass over a mirror further
    /// behind, so that it does not slow the others, and it takes a snapshot. At most half of the window of the origin's
    /// stream.
    pub mirror_lag_bytes_max: usize,
    /// Bytes of a piece of a snapshot, about.
    pub piece_bytes: usize,
    /// Most keys for which rules keep state. Events of further keys pass as if no rule with state applied.
    pub status_keys_max: usize,
    /// Most keys of a keyed state. An event of a further key is counted and not kept.
    pub state_keys_max: usize,
}

impl MirrorLimits {
    /// The default limits.
    pub const DEFAULT: Self = Self {
        key_bytes_max: 1024,
        fields_bytes_max: 1 << 20,
        fields_max: 1024,
        body_bytes_max: 8 << 20,
        streams_max: 64,
        batch_bytes_max: 60 << 10,
        ready_bytes_max: 16 << 20,
        backup_bytes_max: 64 << 20,
        resume_bytes_max: 16 << 20,
        lag_bytes_max: 8 << 20,
        mirror_lag_bytes_max: 512 << 10,
        piece_bytes: 60 << 10,
        status_keys_max: 1_000_000,
        state_keys_max: 10_000_000,
    };
}

impl Default for MirrorLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
