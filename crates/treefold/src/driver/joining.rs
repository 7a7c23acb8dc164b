//! Joins the cluster: contacts the seeds until another member is known, and again if none is left.
//!
//! Addresses are resolved anew each time, because names come and go while a cluster is being rolled out. The
//! pause grows from half a second to two seconds, with random jitter, so that nodes that started together do
//! not retry together.

use super::Loop;
use crate::entropy::draw;
use crate::transport::CONNECT_TIMEOUT;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::lookup_host;
use treefold_core::id::NodeId;
use treefold_core::input::{Command, Input};
use treefold_core::membership::card::MemberCard;
use treefold_core::message::Message;

/// The first pause between two attempts.
const JOIN_PAUSE_LEAST: Duration = Duration::from_millis(500);
/// The longest pause.
const JOIN_PAUSE_MAX: Duration = Duration::from_secs(2);

impl Loop {
    /// Contacts the seeds, and takes the cards that one of them has sent. Without these cards, a node that
    /// has just started would answer calls with its own partitions alone, until gossip brings the other
    /// members' cards.
    pub(super) async fn take_welcome(
        self: &Rc<Self>,
        seeds: &[String],
        from: NodeId,
        cards: Vec<Arc<MemberCard>>,
    ) {
        let addrs = resolve(seeds).await;
        self.fetch_key(&addrs, CONNECT_TIMEOUT).await;
        self.feed(Input::Command(Command::Join(addrs)));
        self.feed(Input::Message { from, message: Message::Cards(cards) });
    }

    /// The task that joins the cluster.
    pub(super) async fn join(self: Rc<Self>, seeds: Vec<String>) {
        let mut members = self.members.subscribe();
        loop {
            let mut pause = JOIN_PAUSE_LEAST;
            while members.borrow_and_update().is_empty() {
                let addrs = resolve(&seeds).await;
                self.fetch_key(&addrs, pause).await;
                self.feed(Input::Command(Command::Join(addrs)));
                // Between 0.5 and 1.5 times the pause.
                let jittered = pause.mul_f64(0.5 + draw() as f64 / u64::MAX as f64);
                let _ = tokio::time::timeout(jittered, members.changed()).await;
                pause = (pause * 2).min(JOIN_PAUSE_MAX);
            }
            // The sender lives as long as this loop.
            let _ = members.wait_for(std::collections::BTreeSet::is_empty).await;
        }
    }
}

async fn resolve(seeds: &[String]) -> Vec<SocketAddr> {
    let mut addrs = Vec::new();
    for seed in seeds {
        match lookup_host(seed).await {
            Ok(found) => addrs.extend(found),
            Err(error) => tracing::warn!(%seed, %error, "a seed's address can't be resolved"),
        }
    }
    addrs
}
