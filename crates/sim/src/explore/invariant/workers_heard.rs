//! Nodes accept the messages of workers that keep to the protocol, and release such workers in time.
//!
//! A node never treats a message of a worker's library as broken, in any order of lost and new connections.
//! When everything is over, each worker has learned that its requests have ended, or has dropped pushes that
//! no node asks for. It keeps nothing.

use super::Finding;
use crate::world::World;
use crate::world::ink::Ink;
use crate::world::workers::worker_of;
use treefold_core::effect::{Effect, TracePoint};
use treefold_core::push::UNATTACHED;

/// Checks the reports of a node about workers.
pub fn of_effect(effect: &Effect<Ink>) -> Finding {
    match effect {
        Effect::Trace(TracePoint::BadMessage { from, problem })
            if worker_of(*from).is_some() && **problem != *UNATTACHED =>
        {
            Err(format!("a node treated a worker's message as broken: {problem}"))
        }
        _ => Ok(()),
    }
}

/// Checks that no worker keeps anything.
pub fn at_rest(world: &World) -> Finding {
    for worker in world.workers().iter().filter(|worker| !worker.is_over()) {
        // Only an attached worker can learn that a request has ended.
        if worker.attached_at().is_some() && !worker.is_idle() {
            let number = worker.spec().number;
            return Err(format!("worker {number} still keeps what it has pushed: {worker:?}"));
        }
    }
    Ok(())
}
