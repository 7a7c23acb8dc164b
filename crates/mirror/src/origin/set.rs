//! Changes of the rules and of the mode, each at one position of the feed.

use super::{Boundary, Origin};
use crate::adapt::next_mode;
use crate::change::{CHANGES_WAITING_MAX, Change, ChangeError, ModeChoice, Version};
use crate::packet::Monitored;
use crate::rules::Mode;
use std::collections::VecDeque;
use std::sync::Arc;
use treefold_core::time::Instant;

/// The versions of an origin's rules.
#[derive(Debug)]
pub(super) struct Settings {
    /// The version under which the last event was chosen.
    pub(super) version: u32,
    /// The version at which the rules were last set. Later versions are other modes of the same rules.
    set: u32,
    choice: ModeChoice,
    /// Changes that hold from now on, and that nobody has polled.
    applied: VecDeque<Applied>,
}

/// A change that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The version of the rules, as [`Origin::set`] returned it.
    pub version: u32,
    /// The position of the first event that these rules choose.
    pub position: u64,
}

impl Settings {
    pub(super) fn begin(version: u32) -> Self {
        Self { version, set: version, choice: ModeChoice::default(), applied: VecDeque::new() }
    }
}

impl Origin {
    /// Changes the rules. Events that were offered before are sent first, under the former rules; all later ones are
    /// chosen by the new rules. Returns the new version of the rules. [`poll_applied`](Self::poll_applied) tells from
    /// which position on it holds.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed.
    pub fn set(&mut self, now: Instant, change: Change) -> Result<u32, ChangeError> {
        let waiting = self.ready.boundaries.len();
        if waiting >= CHANGES_WAITING_MAX {
            return Err(ChangeError::Busy { waiting });
        }
        if let Some(given) = change.if_version {
            self.check_version(given)?;
        }
        let rules = change.resulting(self.selector.rules())?;
        let choice = change.mode.unwrap_or(self.settings.choice);
        let adapts = rules.adapt != crate::rules::file::Adapting::default();
        let mode = choice.fixed().unwrap_or(if adapts { self.mode() } else { Mode::Normal });
        let mut selected = Vec::new();
        self.selector.replace(now, Arc::new(rules), change.functions, &mut selected)?;
        self.ready.enter(now, selected);
        self.selector.set_mode(mode);
        self.settings.choice = choice;
        self.ready.boundaries.push_back(Boundary { count: self.ready.entered, is_set: true });
        self.settings.set = self.next_version();
        let version = self.settings.set;
        self.pass_boundaries();
        Ok(version)
    }

    /// The next change that holds: all events before it are in packets.
    pub fn poll_applied(&mut self) -> Option<Applied> {
        self.settings.applied.pop_front()
    }

    /// The version of the rules for the next event that is offered.
    pub fn next_version(&self) -> u32 {
        self.settings.version + self.ready.boundaries.len() as u32
    }

    /// The version at which the rules were last set. Later versions are other modes of the same rules.
    pub fn set_version(&self) -> u32 {
        self.settings.set
    }

    /// The choice of the mode.
    pub fn mode_choice(&self) -> ModeChoice {
        self.settings.choice
    }

    /// Events that wait to be sent, and their bytes.
    pub fn ready(&self) -> (usize, usize) {
        (self.ready.events.len(), self.ready.bytes)
    }

    fn check_version(&self, given: Version) -> Result<(), ChangeError> {
        let (set, epoch) = (self.settings.set, self.cut.epoch);
        let is_present =
            given.epoch.is_none_or(|of| of == epoch) && (set..=self.next_version()).contains(&given.version);
        if is_present { Ok(()) } else { Err(ChangeError::Version { given: given.version, set, epoch }) }
    }

    /// Begins the versions of the rules before which all events have left the ready queue.
    pub(super) fn pass_boundaries(&mut self) {
        while let Some(boundary) = self.ready.boundaries.front()
            && boundary.count <= self.ready.left
        {
            self.settings.version += 1;
            if boundary.is_set {
                if self.settings.applied.len() >= CHANGES_WAITING_MAX {
                    self.settings.applied.pop_front();
                }
                let (version, position) = (self.settings.version, self.cut.position + 1);
                self.settings.applied.push_back(Applied { version, position });
            }
            self.ready.boundaries.pop_front();
        }
    }

    /// Changes the mode if the monitored values demand it.
    pub(super) fn adapt(&mut self, seen: Monitored) {
        let mode = next_mode(&self.selector.rules().adapt, self.mode(), seen);
        let may_change = self.settings.choice == ModeChoice::Auto;
        if may_change && mode != self.mode() && self.ready.boundaries.len() < CHANGES_WAITING_MAX {
            self.selector.set_mode(mode);
            self.ready.boundaries.push_back(Boundary { count: self.ready.entered, is_set: false });
        }
    }
}

#[cfg(test)]
mod tests;
