//! Workers that keep to the protocol are taken for such, and are not left waiting.
//!
//! What a worker's library says is never a broken message to a node, in whatever order connections are lost and attached.
//! When all is over, each has heard that its requests have ended, or has given up what nobody asks for: it keeps nothing.

use super::Finding;
use crate::world::World;
use crate::world::ink::Ink;
use crate::world::workers::worker_of;
use treefold_core::effect::{Effect, TracePoint};

/// What a worker that was thrown out had on its way.
const UNATTACHED: &str = "push: it has not attached";

/// Looks at what a node says of workers.
pub fn of_effect(effect: &Effect<Ink>) -> Finding {
    match effect {
        Effect::Trace(TracePoint::BadMessage { from, problem })
            if worker_of(*from).is_some() && **problem != *UNATTACHED =>
        {
            Err(format!("a worker is told that its message is broken: {problem}"))
        }
        _ => Ok(()),
    }
}

/// Nobody keeps anything.
pub fn at_rest(world: &World) -> Finding {
    for worker in world.workers().iter().filter(|worker| !worker.is_over()) {
        // Who finds no node has nobody to hear it from.
        if worker.attached_at().is_some() && !worker.is_idle() {
            let number = worker.spec().number;
            return Err(format!("worker {number} still keeps what it has pushed: {worker:?}"));
        }
    }
    Ok(())
}
