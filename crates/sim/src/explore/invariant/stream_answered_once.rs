//! An endpoint answers a packet down exactly once, even if its node died or the endpoint moved.
//!
//! This is checked in do-not-wait mode, in which each answer comes alone, with the tag of the packet that it
//! answers.

use super::Finding;
use super::streams::Heard;
use std::collections::BTreeSet;

/// Checks all packets of a stream whose endpoints send only answers.
pub fn at_rest(heard: &Heard) -> Finding {
    for (endpoint, came) in &heard.packets {
        let mut tags = BTreeSet::new();
        if let Some(twice) = came.iter().find(|came| !tags.insert(came.tag)) {
            return Err(format!("endpoint {endpoint} answered packet {} twice", twice.tag));
        }
    }
    Ok(())
}
