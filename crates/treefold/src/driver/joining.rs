//! Joins the cluster: contacts the seeds until another member is known, and again if none is left.
//!
//! Names and files are looked up anew each time, because their addresses change while a cluster is being rolled out. The
//! pause grows from half a second to two seconds, with random jitter, so that nodes that started together do
//! not retry together.
//!
//! A node that sees members looks names up too: soon after it has lost one, since a process that starts again may have
//! another address, and otherwise at the slow period [`LOOKUP_EVERY`]. Two parts of a cluster that started apart, each
//! content with its own members, find each other by that. It calls only on addresses at which it sees no member.

use super::Loop;
use crate::discovery::{Seed, lookup};
use crate::entropy::draw;
use crate::transport::CONNECT_TIMEOUT;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::id::NodeId;
use treefold_core::input::{Command, Input};
use treefold_core::membership::card::MemberCard;
use treefold_core::message::Message;

/// The first pause between two attempts.
const JOIN_PAUSE_LEAST: Duration = Duration::from_millis(500);
/// The longest pause.
const JOIN_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time from the loss of a member to the next lookup of names. It doubles with each further lookup, up to [`LOOKUP_EVERY`].
const LOOKUP_AFTER_LOSS: Duration = Duration::from_secs(1);
/// Time between two lookups of names while members are in sight.
const LOOKUP_EVERY: Duration = Duration::from_secs(60);

impl Loop {
    /// Contacts the seeds, and takes the cards that one of them has sent. Without these cards, a node that
    /// has just started would answer calls with its own partitions alone, until gossip brings the other
    /// members' cards.
    pub(super) async fn take_welcome(
        self: &Rc<Self>,
        seeds: &mut Seeds,
        from: NodeId,
        cards: Vec<Arc<MemberCard>>,
    ) {
        let addrs = seeds.addrs().await;
        self.fetch_key(&addrs, CONNECT_TIMEOUT).await;
        self.feed(Input::Command(Command::Join(addrs)));
        self.feed(Input::Message { from, message: Message::Cards(cards.into()) });
    }

    /// The task that joins the cluster.
    pub(super) async fn join(self: Rc<Self>, mut seeds: Seeds) {
        loop {
            self.find_company(&mut seeds).await;
            self.keep_company(&mut seeds).await;
        }
    }

    /// Contacts the seeds until a member is in sight.
    async fn find_company(self: &Rc<Self>, seeds: &mut Seeds) {
        let mut members = self.members.subscribe();
        let mut pause = JOIN_PAUSE_LEAST;
        while members.borrow_and_update().is_empty() {
            let addrs = seeds.addrs().await;
            self.fetch_key(&addrs, pause).await;
            self.feed(Input::Command(Command::Join(addrs)));
            let _ = tokio::time::timeout(jittered(pause), members.changed()).await;
            pause = (pause * 2).min(JOIN_PAUSE_MAX);
        }
    }

    /// Looks names up again until no member is in sight.
    async fn keep_company(self: &Rc<Self>, seeds: &mut Seeds) {
        let mut members = self.members.subscribe();
        if !seeds.may_change() {
            // The sender lives as long as this loop.
            let _ = members.wait_for(BTreeSet::is_empty).await;
            return;
        }
        let mut pause = LOOKUP_EVERY;
        loop {
            let mut known = members.borrow_and_update().len();
            // A loss beside a newcomer may be that newcomer's former life; if it is not, the slow period finds out.
            let loss = members.wait_for(|now| {
                let has_lost = now.len() < known;
                known = now.len();
                has_lost
            });
            let has_lost = tokio::time::timeout(jittered(pause), loss).await.is_ok();
            if members.borrow().is_empty() {
                return;
            }
            if has_lost {
                pause = LOOKUP_AFTER_LOSS;
                continue;
            }
            pause = (pause * 2).min(LOOKUP_EVERY);
            let addrs = seeds.addrs().await;
            let absent = self.absent(addrs);
            if !absent.is_empty() {
                self.feed(Input::Command(Command::Join(absent)));
            }
        }
    }

    /// The addresses at which this node sees no member. Its own is no such address.
    fn absent(&self, addrs: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let members = self.members.borrow();
        let known: BTreeSet<SocketAddr> =
            members.iter().map(|member| member.addr).chain([self.identity.node.addr]).collect();
        addrs.into_iter().filter(|addr| !known.contains(addr)).collect()
    }
}

/// A pause between 0.5 and 1.5 times the given one.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + draw() as f64 / u64::MAX as f64)
}

/// The seeds of a node, and the problems with them that the log has.
pub(super) struct Seeds {
    given: Vec<String>,
    told: BTreeMap<String, String>,
}

impl Seeds {
    pub(super) fn new(given: Vec<String>) -> Self {
        Self { given, told: BTreeMap::new() }
    }

    /// True if later lookups may find other addresses.
    fn may_change(&self) -> bool {
        self.given.iter().any(|seed| Seed::parse(seed).is_ok_and(|seed| seed.may_change()))
    }

    /// Looks the seeds up. The log gets each problem once, until it has gone or another one has come.
    async fn addrs(&mut self) -> Vec<SocketAddr> {
        let mut addrs = Vec::new();
        for seed in &self.given {
            let found = lookup(seed).await;
            addrs.extend(found.addrs);
            match found.problem.map(|problem| problem.to_string()) {
                None => {
                    if self.told.remove(seed).is_some() {
                        tracing::info!(%seed, "the lookup of a seed has succeeded again");
                    }
                }
                Some(problem) if self.told.get(seed) != Some(&problem) => {
                    tracing::warn!(%seed, %problem, "the lookup of a seed has a problem; trying on");
                    self.told.insert(seed.clone(), problem);
                }
                Some(_) => {}
            }
        }
        addrs
    }
}
