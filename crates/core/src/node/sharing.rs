//! The shares of applications in a node, set and reported while it runs.

use crate::call::repair::service_of;
use crate::config::NodeConfig;
use crate::effect::{Effect, Event};
use crate::id::{NodeId, RequestId};
use crate::message::{Message, Payload};
use crate::node::context::Context;
use crate::schedule::accounts::{AccountId, Accounts, window};
use crate::schedule::share::{OTHERS, ServiceAccount, ShareError, ShareSetting, SharesReport};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// One account for each service that this node runs, holds or has a share for.
pub(crate) fn accounts_of(config: &NodeConfig) -> Accounts {
    let kinds = config.kinds.iter().map(|kind| service_of(&kind.name));
    let others = config.card.services.keys().chain(config.shares.keys()).chain(&config.pushed);
    Accounts::new(kinds, others.map(|service| &**service), &config.shares)
}

impl<P: Payload> Context<P> {
    /// The account of calls with this name.
    pub(crate) fn account_of(&self, name: &str) -> AccountId {
        self.queue.accounts.of_service(service_of(name))
    }

    /// An application holds bytes here, or is about to. From now on it has its share of the room for bytes.
    pub(crate) fn note_held(&mut self, account_id: AccountId) {
        if self.queue.accounts.note_held(account_id) {
            self.part_rooms();
        }
    }

    /// Divides all room anew among the applications.
    pub(crate) fn part_rooms(&mut self) {
        self.queue.part_room();
        for account_id in 0..self.queue.accounts.len() {
            let part = self.queue.accounts.part_of_bytes(account_id);
            let bytes_max = (self.config.limits.held_bytes_max as f64 * part) as usize;
            self.credit.set_room(account_id, bytes_max);
        }
    }

    /// Sets other shares, and reports all shares.
    pub(crate) fn set_shares(
        &mut self,
        now: Instant,
        settings: &[ShareSetting],
    ) -> Result<Box<SharesReport>, ShareError> {
        if !settings.is_empty() {
            self.queue.accounts.set(settings)?;
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
        let with_what_waits = |(account_id, account): (AccountId, ServiceAccount)| ServiceAccount {
            jobs_queued: self.queue.len_of(account_id),
            queued: self.loads.index.queued_of(account_id).into(),
            held_bytes: self.credit.held_of(account_id),
            held_bytes_max: self.credit.room_of(account_id),
            ..account
        };
        let mut services: Vec<ServiceAccount> =
            self.queue.accounts.report(now).enumerate().map(with_what_waits).collect();
        services.sort_by_key(|account| &*account.service == OTHERS);
        SharesReport {
            processors: self.config.card.processors,
            uptime: Duration::from_nanos(now.as_nanos()).into(),
            window: window(now).into(),
            services,
        }
    }
}
