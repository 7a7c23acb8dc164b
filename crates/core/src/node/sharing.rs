//! The shares of applications in a node, set and reported while it runs.

use crate::call::repair::service_of;
use crate::config::NodeConfig;
use crate::effect::{Effect, Event};
use crate::id::{NodeId, RequestId};
use crate::message::{Message, Payload};
use crate::node::context::Context;
use crate::schedule::lanes::{Lane, Lanes, window};
use crate::schedule::share::{ServiceAccount, ShareError, ShareSetting, SharesReport};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;

/// One lane for each service that this node runs, holds or has a share for.
pub(crate) fn lanes_of(config: &NodeConfig) -> Lanes {
    let kinds = config.kinds.iter().map(|kind| service_of(&kind.name));
    let others = config.card.services.keys().chain(config.shares.keys()).chain(&config.pushed);
    Lanes::new(kinds, others.map(|service| &**service), &config.shares)
}

impl<P: Payload> Context<P> {
    /// The lane of calls with this name.
    pub(crate) fn lane_of(&self, name: &str) -> Lane {
        self.queue.lanes.of_service(service_of(name))
    }

    /// An application holds bytes here, or is about to. From now on it has its share of the room for bytes.
    pub(crate) fn note_held(&mut self, lane: Lane) {
        if self.queue.lanes.note_held(lane) {
            self.part_rooms();
        }
    }

    /// Divides all room anew among the applications.
    pub(crate) fn part_rooms(&mut self) {
        self.queue.part_room();
        for lane in 0..self.queue.lanes.len() {
            let part = self.queue.lanes.part_of_bytes(lane);
            let bytes_max = (self.config.limits.held_bytes_max as f64 * part) as usize;
            self.credit.set_room(lane, bytes_max);
        }
    }

    /// Sets other shares, and reports all shares.
    pub(crate) fn set_shares(
        &mut self,
        now: Instant,
        settings: &[ShareSetting],
    ) -> Result<Box<SharesReport>, ShareError> {
        if !settings.is_empty() {
            self.queue.lanes.set(settings)?;
            self.part_rooms();
        }
        Ok(Box::new(self.shares_report(now)))
    }

    /// A client or a peer sets shares, or asks for them.
    pub(super) fn handle_shares_request(
        &mut self,
        now: Instant,
        from: NodeId,
        id: u64,
        settings: &[ShareSetting],
    ) {
        let result = self.set_shares(now, settings);
        let result = result.map_err(|error| Arc::from(error.to_string()));
        self.send(from, Message::SharesReply { id, result });
    }

    /// The driver's user sets shares, or asks for them.
    pub(super) fn set_shares_for_user(
        &mut self,
        now: Instant,
        request: RequestId,
        settings: &[ShareSetting],
    ) {
        let result = self.set_shares(now, settings);
        let result = result.map_err(|error| Arc::from(error.to_string()));
        self.effects.push_back(Effect::Deliver(Event::Shares { request, result }));
    }
}

impl<P: Payload> Context<P> {
    /// Each application's share of the node, and what it has used.
    pub(crate) fn shares_report(&self, now: Instant) -> SharesReport {
        let with_what_waits = |(lane, account): (Lane, ServiceAccount)| ServiceAccount {
            jobs_queued: self.queue.len_of(lane),
            queued: self.loads.index.queued_of(lane).into(),
            held_bytes: self.credit.held_of(lane),
            held_bytes_max: self.credit.room_of(lane),
            ..account
        };
        SharesReport {
            processors: self.config.card.processors,
            uptime: Duration::from_nanos(now.as_nanos()).into(),
            window: window(now).into(),
            services: self.queue.lanes.report(now).enumerate().map(with_what_waits).collect(),
        }
    }
}
