//! A journal: numbered records in append-only files, so that events survive the death of their node.
//!
//! ```text
//! directory/
//!   epochs                          the epochs of its writers
//!   lock
//!   00000000000000000001.journal    records 1 to 8,190, sealed
//!   00000000000000008191.journal    records from 8,191 on, the one that is written
//!   00000000000000008191-7340.torn  the end of a segment, from byte 7,340 on, that a crash has torn
//!
//! segment: magic "TFJ2", salt (u32), then records
//! record:  bytes of the payload and its checksum (u32 each); first and last position, and the last position that was
//!          forced to the disk when the record was appended (u64 each); checksum of these (u32); payload
//! ```
//!
//! A record covers the positions from `first` to `last`, and the next one begins at `last + 1`. Integers are
//! little-endian. Checksums are CRC-32C, and begin with the segment's salt.
//!
//! - **Durable** has one meaning: [`Journal::durable`] is the last position that the [`Sync`] policy promises to
//!   keep. Appends wait in memory until [`Journal::flush`], so one write and one fsync serve all records that
//!   arrived meanwhile (group commit).
//! - **A torn record is an end, not an error.** A node that dies while it writes leaves a part of its last records
//!   behind the whole ones. [`Segments::open`] cuts them off, keeps the bytes in a file of their own, and reports them.
//!   If a broken record had been forced to the disk before, no crash explains it: the journal is damaged, and does not
//!   open. An intact record behind a broken one tells this, and so does a later segment.
//! - **A full disk loses nothing.** A write that fails is cut off again, its records stay in memory, and the next
//!   flush tries again. After a failed fsync the journal refuses further work, because the kernel may have
//!   dropped the pages that it could not write.
//!
//! Modules: [`journal`] is the interface; [`segments`] is the journal in files; `scan` reads
//! segments; `record` encodes records; [`epochs`] keeps the epochs; `files` names and locks files; [`summed`] has small
//! texts with checksums.
#![forbid(unsafe_code)]

pub mod epochs;
mod files;
pub mod journal;
mod record;
mod scan;
pub mod segments;
pub mod summed;

pub use journal::{Epoch, Journal, JournalError, Stored, Sync};
pub use scan::Torn;
pub use segments::{Opened, Options, Segments};
