//! In a stream with a lag limit, a slow endpoint holds up nobody: its front-end soon has room for the next packet.
//!
//! This is checked while no fault has struck. After a fault, also endpoints that are not slow may be late.

use super::Finding;
use super::streams::Heard;
use treefold_core::time::Duration;

/// Longest time without room. Endpoints acknowledge packets at the latest with the beat of each level.
pub const HELD_MAX: Duration = Duration::from_secs(3);

/// Checks a front-end that has had no room for a packet down for this long.
pub fn sent(heard: &Heard, held_for: Duration) -> Finding {
    // An endpoint that is alone has the right to stop its sender.
    if held_for <= HELD_MAX || heard.asked.len() < 2 || heard.stream.is_none() {
        return Ok(());
    }
    Err(format!("the front-end has had no room for {held_for:?}, although not all endpoints are slow"))
}
