//! A journal: numbered records in append-only files, so that events survive the death of their node.
//!
//! ```text
//! directory/
//!   epochs                          the epochs of its writers
//!   lock
//!   00000000000000000001.journal    records 1 to 8,190, sealed
//!   00000000000000008191.journal    records from 8,191 on, the one that is written
//!
//! segment: magic "TFJ1", then records
//! record:  bytes of the payload (u32), CRC-32C (u32), first and last position (u64 each), payload
//! ```
//!
//! A record covers the positions from `first` to `last`, and the next one begins at `last + 1`. Integers are
//! little-endian. The checksum covers all of a record but itself.
//!
//! - **Durable** has one meaning: [`Journal::durable`] is the last position that the [`Sync`] policy promises to
//!   keep. Appends wait in memory until [`Journal::flush`], so one write and one fsync serve all records that
//!   arrived meanwhile (group commit).
//! - **A torn record is an end, not an error.** A node that dies while it writes leaves a part of a record behind
//!   the last whole one. [`Segments::open`] cuts it off and reports it. In the last segment, the first broken record
//!   counts as torn, also if others follow. A broken record with segments behind it is damage, which no crash
//!   explains; the journal then does not open.
//! - **A full disk loses nothing.** A write that fails is cut off again, its records stay in memory, and the next
//!   flush tries again. After a failed fsync the journal refuses further work, because the kernel may have
//!   dropped the pages that it could not write.
//!
//! Modules: [`journal`] is the interface; [`segments`] is the journal in files; `record` encodes records; `epochs` keeps
//! the epochs; `files` names and locks files.
#![forbid(unsafe_code)]

mod epochs;
mod files;
pub mod journal;
mod record;
pub mod segments;

pub use journal::{Epoch, Journal, JournalError, Stored, Sync};
pub use segments::{Opened, Options, Segments, Torn};
