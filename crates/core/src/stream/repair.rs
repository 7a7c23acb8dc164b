//! Who is lost, who is silent, and who comes back.
//!
//! As in a call, the parent holds its child's whole subtree, and that is all it needs: when the child is lost its
//! children become the parent's own, or another child's when the parent has many. They keep what is not settled and
//! send it again; whatever crosses on the way is told by its contributors. The lost node's own endpoints are *away*:
//! missing from every wave, with the reason, until they are back.
//!
//! A child is lost when its connection breaks, or when it has been silent for [`Tuning::stream_patience`]; a node
//! with nothing to say says so every [`Tuning::stream_beat`]. One that was merely silent is called back as soon as it
//! is heard again, and begins anew with a tag that nobody has seen yet, so that it is never behind the others.
//!
//! [`Tuning::stream_patience`]: crate::config::Tuning::stream_patience
//! [`Tuning::stream_beat`]: crate::config::Tuning::stream_beat

use super::StreamError;
use super::gather::next_slot_due;
use super::message::StreamMessage;
use super::share::{Branch, Parent, Share, Standing};
use super::spec::Source;
use crate::effect::{Effect, TracePoint};
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::tree::Tree;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// So many times the patience passes between two attempts to have somebody back who was given up.
const ASK_BACK_EVERY: f64 = 4.0;
/// A node with so many children gives orphans to one of them, if one has fewer.
const CHILDREN_MANY: usize = 16;

impl<P: Payload> Node<P> {
    /// A peer is gone: as a parent, as a child.
    pub(crate) fn handle_stream_peer_gone(&mut self, now: Instant, peer: NodeId) {
        let concerned: Vec<_> = self
            .streams
            .values()
            .filter(|share| share.parent == Parent::Node(peer) || share.branch_at(peer).is_some())
            .map(|share| share.id)
            .collect();
        for stream in concerned {
            self.with_share(now, stream, |node, share| {
                if share.parent == Parent::Node(peer) {
                    if peer.is_client() {
                        return Err(StreamError::FrontLost);
                    }
                    share.orphan_since.get_or_insert(now);
                }
                match share.branch_at(peer) {
                    Some(_) if share.dazed_until.is_some() => share.gone_meanwhile.push(peer),
                    Some(at) => node.lose_broken(now, share, at),
                    None => {}
                }
                Ok(())
            });
        }
    }

    /// A node that has been held up for so long that it may have been given up does not know who is whose child by
    /// now. It says that it is there, and decides nothing about others until its parent has had time to answer.
    pub(crate) fn note_daze(&mut self, now: Instant, share: &mut Share<P>) {
        let held_up = self.config.tuning.stream_beat + self.config.tuning.stream_patience.mul_f64(0.5);
        if share.ticked_at.until(now) <= held_up {
            return;
        }
        share.ticked_at = now;
        share.branches.iter_mut().for_each(|branch| branch.heard_at = now);
        if let Parent::Node(parent) = share.parent {
            share.dazed_until = Some(now + self.config.tuning.stream_beat);
            self.send_stream(parent, StreamMessage::Beat { stream: share.id });
        }
    }

    /// A child's connection broke. If it was there, it may still be, and is asked to come back; if that fails too it
    /// is forgotten.
    fn lose_broken(&mut self, now: Instant, share: &mut Share<P>, at: usize) {
        let (node, was_there) = (share.branches[at].node, share.branches[at].standing == Standing::There);
        self.lose_branch(now, share, at, &Reason::Lost);
        let Some(at) = share.branch_at(node) else { return };
        if was_there {
            self.call_back(share, at);
        } else {
            share.branches.remove(at);
            share.regroup();
        }
    }

    /// Gives a child up: its endpoints are away, its children are adopted.
    pub(crate) fn lose_branch(&mut self, now: Instant, share: &mut Share<P>, at: usize, reason: &Reason) {
        let lost = share.branches.remove(at);
        let own = lost.tree.root().partitions.clone();
        let orphans: Vec<Tree> = lost.tree.children().filter(|tree| tree.root().node != self.me).collect();
        let mut rest = lost.endpoints.difference(&own);
        orphans.iter().for_each(|tree| rest = rest.difference(&tree.partitions()));
        self.counters.stream_repairs += 1;
        share.term += 1;
        let trace = TracePoint::Orphans {
            stream: share.id,
            child: lost.node,
            orphans: orphans.len(),
            reason: reason.clone(),
        };
        self.effects.push_back(Effect::Trace(trace));
        for partitions in [own.clone(), rest] {
            if !partitions.is_empty() {
                share.put_away(Missing { partitions, node: Some(lost.node), reason: reason.clone() });
            }
        }
        let heirs = self.place_orphans(now, share, &orphans);
        if share.spec.has_filter() {
            share.replaced.push((Source::Child(lost.source), heirs));
        }
        let (node, source) = (lost.node, lost.source);
        // Who only passed on what others sent is not missed, and need not come back.
        if !own.is_empty() {
            share.branches.push(Branch {
                node,
                source,
                standing: Standing::Away,
                tree: Tree::leaf(node, own.clone()),
                endpoints: own,
                heard_at: now,
                away: Vec::new(),
                half: Vec::new(),
                held_bytes: lost.held_bytes,
                to_take: VecDeque::new(),
                holds_from: None,
                told_ahead: 0,
                asked_back_at: now,
                rejoins: false,
            });
        }
        share.regroup();
        share.news_due = true;
        self.forget_taken(share);
        self.look_at_slots(share);
    }

    /// Finds each orphan a new parent: this node, or the child with fewest below it when there are many here.
    fn place_orphans(&mut self, now: Instant, share: &mut Share<P>, orphans: &[Tree]) -> Vec<Source> {
        let mut heirs = Vec::new();
        for tree in orphans {
            let live = share.live().count();
            let foster = if live < CHILDREN_MANY { None } else { self.least_burdened(now, share, live) };
            let window_bytes = self.window_for(share, live + 1);
            match foster {
                None => {
                    self.adopt_branch(now, share, tree, window_bytes, false);
                    heirs.push(Source::Child(share.sources));
                }
                Some(at) => {
                    let branch = &mut share.branches[at];
                    let mut children: Vec<Tree> = branch.tree.children().collect();
                    children.push(tree.clone());
                    let root = branch.tree.root();
                    branch.tree = Tree::join(root.node, root.partitions.clone(), &children);
                    branch.endpoints.union_with(&tree.partitions());
                    heirs.push(Source::Child(branch.source));
                    let tree = branch.tree.clone();
                    self.send_open(share, &tree, window_bytes, false, PartitionSet::new());
                }
            }
        }
        heirs
    }

    /// The child that is best fit to take another one: it has children, fewer than this node, and of those the least
    /// load.
    fn least_burdened(&mut self, now: Instant, share: &Share<P>, children_max: usize) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for (at, branch) in share.branches.iter().enumerate() {
            let children = branch.tree.children().count();
            let is_fit = branch.standing == Standing::There && (1..children_max).contains(&children);
            if !is_fit {
                continue;
            }
            let load_ms = self.loads.load_ms(branch.node, now, &mut self.random).unwrap_or(0.0);
            let burden = (1.0 + load_ms) * children as f64;
            if best.is_none_or(|(least, _)| burden < least) {
                best = Some((burden, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// A child that was given up is heard again, or may be reached: it begins anew.
    pub(crate) fn call_back(&mut self, share: &mut Share<P>, at: usize) {
        share.sources += 1;
        let branch = &mut share.branches[at];
        branch.source = share.sources;
        branch.standing = Standing::Asked;
        branch.rejoins = true;
        branch.held_bytes = 0;
        let tree = branch.tree.clone();
        let window_bytes = self.window_for(share, share.branches.len());
        self.send_open(share, &tree, window_bytes, true, PartitionSet::new());
    }

    /// Who was given up may be well, and have no share any more that would make it speak.
    fn ask_back(&mut self, now: Instant, share: &mut Share<P>) {
        let pause = self.config.tuning.stream_patience.mul_f64(ASK_BACK_EVERY);
        let is_due =
            |branch: &Branch<P>| branch.standing == Standing::Away && branch.asked_back_at.until(now) > pause;
        for at in 0..share.branches.len() {
            if is_due(&share.branches[at]) {
                share.branches[at].asked_back_at = now;
                let tree = share.branches[at].tree.clone();
                let window_bytes = self.window_for(share, share.branches.len());
                self.send_open(share, &tree, window_bytes, true, PartitionSet::new());
            }
        }
    }

    /// A child says that it is alive.
    pub(crate) fn take_beat(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        from: NodeId,
    ) -> Result<(), StreamError> {
        match share.branch_at(from) {
            Some(at) => {
                share.branches[at].heard_at = now;
                if share.branches[at].standing == Standing::Away {
                    self.call_back(share, at);
                }
            }
            None => self.turn_away(share, from),
        }
        Ok(())
    }

    /// Someone speaks who is no child, or no longer: it was given up, and nobody needs it back.
    pub(crate) fn turn_away(&mut self, share: &Share<P>, from: NodeId) {
        let close = StreamMessage::Close { stream: share.id, reason: StreamError::Closed };
        self.send_stream(from, close);
    }

    /// When a share wants to be looked at again.
    pub(crate) fn share_wakes_at(&self, share: &Share<P>) -> Instant {
        let tick_at = share.ticked_at + self.config.tuning.stream_beat;
        next_slot_due(share).map_or(tick_at, |due| due.min(tick_at))
    }

    /// A share's timer has fired.
    pub(crate) fn handle_stream_timeout(&mut self, now: Instant, stream: super::StreamId) {
        self.with_share(now, stream, |node, share| {
            share.armed = None;
            node.time_out_slots(now, share);
            if now < share.ticked_at + node.config.tuning.stream_beat {
                return Ok(());
            }
            share.ticked_at = now;
            if share.dazed_until.is_some_and(|until| until <= now) {
                share.dazed_until = None;
                for peer in core::mem::take(&mut share.gone_meanwhile) {
                    if let Some(at) = share.branch_at(peer) {
                        node.lose_broken(now, share, at);
                    }
                }
            }
            node.tick(now, share)
        });
    }

    /// What a share does every so often.
    fn tick(&mut self, now: Instant, share: &mut Share<P>) -> Result<(), StreamError> {
        if let Some(since) = share.orphan_since
            && since.until(now) > self.config.tuning.orphan_patience
        {
            return Err(StreamError::FrontLost);
        }
        self.settle_taken(share);
        self.tell_taken(share);
        self.give_up_stuck_filter(now, share);
        self.look_after_operator_wants(now, share)?;
        let patience = self.config.tuning.stream_patience;
        self.ask_back(now, share);
        let silent =
            |branch: &Branch<P>| branch.standing != Standing::Away && branch.heard_at.until(now) > patience;
        while let Some(at) = share.branches.iter().position(silent) {
            self.lose_branch(now, share, at, &Reason::Late);
        }
        if let Parent::Node(parent) = share.parent
            && share.orphan_since.is_none()
            && !core::mem::take(&mut share.has_spoken)
        {
            self.send_stream(parent, StreamMessage::Beat { stream: share.id });
        }
        Ok(())
    }
}
