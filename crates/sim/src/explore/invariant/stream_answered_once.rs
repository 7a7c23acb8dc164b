//! An endpoint answers a packet down once, however often its node died and wherever it lives now.
//!
//! Looked for where nobody is waited for: each answer comes alone, under the tag of the packet that it answers.

use super::Finding;
use super::streams::Heard;
use std::collections::BTreeSet;

/// Looks at all that has come of a stream whose endpoints send nothing on their own.
pub fn at_rest(heard: &Heard) -> Finding {
    for (endpoint, came) in &heard.packets {
        let mut tags = BTreeSet::new();
        if let Some(twice) = came.iter().find(|came| !tags.insert(came.tag)) {
            return Err(format!("endpoint {endpoint} answered packet {} twice", twice.tag));
        }
    }
    Ok(())
}
