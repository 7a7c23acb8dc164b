//! The node: the one value that a driver feeds and drains.

use crate::config::NodeConfig;
use crate::effect::Effect;
use crate::input::Input;
use crate::message::Payload;
use crate::time::Instant;
use alloc::collections::VecDeque;

/// A node as a pure state machine: inputs in, effects out.
///
/// Feed it with [`Node::handle_input`] and [`Node::handle_timeout`], then drain [`Node::poll_effect`] until it
/// is empty, then ask [`Node::poll_timeout`] when it next wants to be woken.
pub struct Node<P> {
    config: NodeConfig,
    effects: VecDeque<Effect<P>>,
}

impl<P: Payload> Node<P> {
    /// A node that has just started.
    pub fn new(config: NodeConfig, _now: Instant) -> Self {
        Self { config, effects: VecDeque::new() }
    }

    /// Something happened.
    pub fn handle_input(&mut self, _now: Instant, _input: Input<P>) {
        let _ = &self.config;
    }

    /// The time that [`Node::poll_timeout`] named has come. Harmless when called early.
    pub fn handle_timeout(&mut self, _now: Instant) {}

    /// The next thing to do, until there is none.
    pub fn poll_effect(&mut self) -> Option<Effect<P>> {
        self.effects.pop_front()
    }

    /// When [`Node::handle_timeout`] wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
