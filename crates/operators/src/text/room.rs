//! The memory of received bytes: grows for a long line, and is given back behind it.

/// Room that is kept for a connection without long lines.
pub const KEPT: usize = 64 << 10;

/// Removes the first `done` bytes, and makes room for `more`. Room beyond twice [`KEPT`] that is not needed any more is
/// given back. If the bytes are a long line, the room doubles, but not beyond `line_bytes_max`.
pub fn make_room(bytes: &mut Vec<u8>, done: usize, more: usize, line_bytes_max: usize) {
    if done == bytes.len() {
        bytes.clear();
    } else if done > 0 {
        bytes.copy_within(done.., 0);
        bytes.truncate(bytes.len() - done);
    }
    let needed = bytes.len() + more;
    if needed <= 2 * KEPT && bytes.capacity() > 2 * KEPT {
        bytes.shrink_to(2 * KEPT);
    }
    if bytes.capacity() < needed {
        let doubled = (2 * bytes.len()).min(line_bytes_max.saturating_add(1));
        bytes.reserve_exact(needed.max(doubled).max(KEPT) - bytes.len());
    }
}
