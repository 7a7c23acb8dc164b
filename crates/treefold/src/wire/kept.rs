//! Trees that both sides of a connection keep, so that a call names its tree by a number.
//!
//! A caller that calls again uses the same tree, so nearly all bytes of a call, and half of its decoding, repeat.
//! As HTTP/2 does for headers (RFC 7541), each direction of a connection has a table at both ends:
//!
//! ```text
//!              SentTrees                                        KeptTrees
//!   first call ── whole ─────────── columns ──────────────────▶ decoded
//!   second ────── kept as n ─────── columns, number n ────────▶ decoded, kept as n
//!   third … ───── named ─────────── number n ─────────────────▶ the tree of n, no decoding
//! ```
//!
//! A decoded tree is one row in memory, and a node sends its children subtrees of that row. Therefore its own
//! outboxes recognise the subtrees, by address, and kept trees spread down a tree by themselves.
//!
//! * A tree is kept at its second call, because callers whose trees always change would only fill the tables.
//! * Numbers ascend and are never used again, so a number never means another tree, even if one side has lost
//!   track. Both sides drop the oldest trees until the rest are within [`TREES_KEPT_MAX`] and
//!   [`TREES_KEPT_BYTES_MAX`]. The receiver keeps every tree whose frame it could read, even if it refuses the call.
//! * A frame that other frames may overtake neither keeps nor names a tree.
//! * The tables belong to the connection and end with it. The sender's one keeps no tree in memory.

use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::CallHeader;
use crate::wire::tree::{put_tree, tree_bytes, tree_of};
use crate::wire::{TREES_KEPT_BYTES_MAX, TREES_KEPT_MAX};
use std::collections::VecDeque;
use treefold_core::limits::Limits;
use treefold_core::tree::{KnownTree, Tree};

/// A tree and parameters in a header that are no longer than this together are read by every receiver: the least
/// `header_bytes_max` is 4 KiB, and the rest of a header is shorter than a quarter of that.
const SURELY_READ_BYTES: usize = 3 << 10;

/// An entry of either table.
#[derive(Debug)]
struct Entry<T> {
    number: u32,
    /// Bytes of the tree on the wire.
    bytes: usize,
    tree: T,
}

/// The last trees that were kept, ascending by number.
#[derive(Debug)]
struct Table<T> {
    row: VecDeque<Entry<T>>,
    /// Bytes of all entries.
    bytes: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { row: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Table<T> {
    /// Adds an entry, and drops the oldest until the rest are within the limits.
    fn push(&mut self, entry: Entry<T>, most: usize) {
        self.bytes += entry.bytes;
        self.row.push_back(entry);
        while self.row.len() > most || self.bytes > TREES_KEPT_BYTES_MAX {
            let Some(oldest) = self.row.pop_front() else { return };
            self.bytes -= oldest.bytes;
        }
    }

    /// The last entry whose tree meets a condition. It is the one that is most often wanted.
    fn find(&self, is_it: impl Fn(&Entry<T>) -> bool) -> Option<&Entry<T>> {
        self.row.iter().rev().find(|&entry| is_it(entry))
    }
}

/// A change of the sender's table, which takes effect when its call is queued.
#[derive(Debug)]
enum Change {
    /// The tree was sent whole, for the first time.
    Seen(KnownTree),
    /// The tree was sent whole, with a number.
    Kept(Entry<KnownTree>),
}

/// The sender's table.
#[derive(Debug, Default)]
pub(super) struct SentTrees {
    /// The number of trees that the receiver keeps.
    most: usize,
    table: Table<KnownTree>,
    /// The number of the tree that was kept last.
    last: u32,
    /// Trees that were sent once; at most as many as are kept.
    seen: VecDeque<KnownTree>,
    change: Option<Change>,
}

impl SentTrees {
    /// The receiver keeps this many trees.
    pub(super) fn keep(&mut self, most: u32) {
        self.most = (most as usize).min(TREES_KEPT_MAX);
    }

    /// Fills in the tree of a call: its number, or its columns, or both. [`Self::settle`] must follow.
    ///
    /// # Errors
    /// If the tree is above a limit.
    pub(super) fn put_tree(
        &mut self,
        header: &mut CallHeader,
        tree: &Tree,
        limits: &Limits,
    ) -> Result<(), WireError> {
        self.change = None;
        if let Some(kept) = self.table.find(|kept| kept.tree.is(tree)) {
            header.tree = kept.number;
            return Ok(());
        }
        put_tree(header, tree, limits)?;
        let bytes = tree_bytes(header);
        if self.most == 0 || bytes > TREES_KEPT_BYTES_MAX {
            return Ok(());
        }
        let is_again = self.seen.iter().any(|seen| seen.is(tree));
        // Parameters of single partitions or of the reduce may make the header longer than a receiver with a lower limit reads. It
        // would then not keep the tree, so such a call does not count.
        let own_bytes = header.own.as_ref().map_or(0, prost::Message::encoded_len);
        let is_surely_read = own_bytes == 0 || bytes.saturating_add(own_bytes) <= SURELY_READ_BYTES;
        match self.last.checked_add(1) {
            Some(number) if is_again && is_surely_read => {
                header.tree = number;
                self.change = Some(Change::Kept(Entry { number, bytes, tree: tree.known() }));
            }
            Some(_) if !is_again => self.change = Some(Change::Seen(tree.known())),
            _ => {}
        }
        Ok(())
    }

    /// Called after each message: whether it was queued.
    pub(super) fn settle(&mut self, is_queued: bool) {
        match self.change.take().filter(|_| is_queued) {
            None => {}
            Some(Change::Seen(tree)) => {
                self.seen.truncate(TREES_KEPT_MAX - 1);
                self.seen.push_front(tree);
            }
            Some(Change::Kept(entry)) => {
                self.seen.retain(|seen| *seen != entry.tree);
                self.last = entry.number;
                self.table.push(entry, self.most);
            }
        }
    }
}

/// The receiver's table.
#[derive(Debug, Default)]
pub(super) struct KeptTrees {
    table: Table<Tree>,
}

impl KeptTrees {
    /// The tree of a call. Keeps it if the header has a number and a tree.
    ///
    /// # Errors
    /// If the header has neither a tree nor the number of a kept one, or a tree that is above a limit or malformed.
    pub(super) fn take_tree(&mut self, header: &CallHeader, limits: &Limits) -> Result<Tree, WireError> {
        let (number, bytes) = (header.tree, tree_bytes(header));
        if number == 0 {
            return tree_of(header, limits);
        }
        if bytes == 0 && header.family == 0 {
            return match self.table.find(|kept| kept.number == number) {
                Some(kept) => Ok(kept.tree.clone()),
                None => {
                    let (kept, limit) = (self.table.row.len(), TREES_KEPT_MAX as u64);
                    Err(WireError::UnknownTree { number, kept, limit })
                }
            };
        }
        if let Some(last) = self.table.row.back()
            && number <= last.number
        {
            return Err(malformed("tree"));
        }
        within("kept tree", TREES_KEPT_BYTES_MAX, bytes)?;
        let tree = tree_of(header, limits)?.examined();
        self.table.push(Entry { number, bytes, tree: tree.clone() }, TREES_KEPT_MAX);
        Ok(tree)
    }
}
