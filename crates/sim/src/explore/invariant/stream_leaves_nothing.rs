//! A closed stream leaves nothing behind: no node has state for it, and none of its endpoints is open.

use super::Finding;
use crate::world::World;
use crate::world::place::Life;

/// Checks that no node has a stream.
pub fn at_rest(world: &World) -> Finding {
    for at in (0..world.places()).filter(|&at| world.place(at).life() == Life::Running) {
        if let Some(work) = world.place(at).node().stream_work().next() {
            return Err(format!("all streams are over, but place {at} still has {work:?}"));
        }
    }
    let is_open = |node, is_over: bool| world.is_there(node) && !is_over;
    match world.seats().find(|((node, ..), seat)| is_open(*node, seat.is_over)) {
        Some((key, _)) => Err(format!("all streams are over, but {key:?} was never closed")),
        None => Ok(()),
    }
}
