//! A wave's running count of losses, checked against a scan of all children.

use super::Node;
use crate::config::{Kind, NodeConfig, Placement, Tuning};
use crate::effect::{Effect, Work};
use crate::error::{Missing, Reason};
use crate::id::{NodeId, Tag, WaveId};
use crate::input::Input;
use crate::limits::Limits;
use crate::load::figure::{CostFigure, LoadFigure, Took};
use crate::membership::card::{MemberCard, ServiceCard};
use crate::message::{Call, CallTimes, Message, Partial};
use crate::node::path::place_of;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use crate::tree::Tree;
use crate::wave::slice::Slice;
use crate::wave::wait::Waiting;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use proptest::prelude::*;

const CHILDREN: u32 = 20;
const ROOT: u32 = 1;
const FIRST_CHILD: u32 = 2;
/// Two replicas of all partitions. They are not children at first.
const REPLICAS: [u32; 2] = [100, 101];
const TAG: Tag = Tag { wave: WaveId { origin: 1, sequence: 1 }, branch: 0 };

fn node_id(number: u32) -> NodeId {
    let [.., a, b] = number.to_be_bytes();
    NodeId::new(([10, 0, a, b], 7700).into(), 1)
}

fn card(number: u32) -> MemberCard {
    let mut card = MemberCard::new(node_id(number));
    let service = ServiceCard {
        partitions: PartitionSet::first(2 * CHILDREN),
        total: 2 * CHILDREN,
        declared: true,
        placed: None,
    };
    card.services.insert("s".into(), service);
    card
}

/// A node without partitions that sums on its loop.
pub(crate) fn summing(name: NodeId) -> NodeConfig {
    NodeConfig {
        card: MemberCard::new(name),
        kinds: alloc::vec![Kind {
            name: "s/sum".into(),
            placement: Placement::Inline,
            is_sliceable: false,
            gives_slices: false,
            folds_in_pairs: false,
        }],
        tuning: Tuning::LAN,
        limits: Limits::DEFAULT,
        shares: Default::default(),
        pushed: Default::default(),
        placed: Default::default(),
        seed: 1,
    }
}

/// The partitions of a child: two that are not adjacent.
fn held(child: u32) -> PartitionSet {
    [child, CHILDREN + child].into_iter().collect()
}

fn partial(branch: u32, contributors: PartitionSet, missing: Vec<Missing>, last: bool) -> Partial<Bytes> {
    Partial {
        tag: Tag { branch, ..TAG },
        payload: (!contributors.is_empty()).then(|| Bytes::from_static(&[1])),
        contributors,
        missing,
        last,
        load: LoadFigure::default(),
        loads: Vec::new(),
        own: None,
        served: None,
        cost: CostFigure::default(),
        given_up: Vec::new(),
        report: None,
    }
}

fn call(tag: Tag, tree: Tree, answer_left: Duration) -> Call<Bytes> {
    Call {
        tag,
        name: "s/sum".into(),
        params: Some(Bytes::new().into()),
        times: CallTimes { deadline_left: answer_left + answer_left, answer_left, sign_after: None },
        waiting: Waiting::Learned,
        losses_max: 0,
        spare: 0,
        hedge: false,
        tree,
        explain: false,
        loads_wanted: false,
        slice: Slice::WHOLE,
        push: None,
        in_flight: 0,
        whole: false,
    }
}

/// A root, its children, and the replicas that it has asked since.
struct Root {
    node: Node<Bytes>,
    now: Instant,
    asked: Vec<(NodeId, u32, PartitionSet)>,
    dismissed: Vec<(NodeId, u32)>,
    /// Nodes that were asked for their cards.
    questioned: Vec<NodeId>,
    disconnected: Vec<NodeId>,
    /// When the asked children are to send their first signs of life.
    signs: Vec<Option<Duration>>,
}

impl Root {
    fn new(spare: u32, losses_max: u32, hedge: bool, replicas: usize) -> Self {
        Self::of(summing(node_id(ROOT)), spare, losses_max, hedge, replicas)
    }

    fn of(config: NodeConfig, spare: u32, losses_max: u32, hedge: bool, replicas: usize) -> Self {
        let mut root = Self {
            node: Node::new(config, Instant::START),
            now: Instant::START,
            asked: Vec::new(),
            dismissed: Vec::new(),
            questioned: Vec::new(),
            disconnected: Vec::new(),
            signs: Vec::new(),
        };
        let cards: Vec<_> = REPLICAS[..replicas].iter().map(|&number| Arc::new(card(number))).collect();
        root.feed(Input::Message { from: node_id(REPLICAS[0]), message: Message::Cards(cards.into()) });
        root.call(TAG, losses_max, spare, hedge);
        root
    }

    /// Calls all children.
    fn call(&mut self, tag: Tag, losses_max: u32, spare: u32, hedge: bool) {
        let leaves: Vec<Tree> =
            (0..CHILDREN).map(|child| Tree::leaf(node_id(FIRST_CHILD + child), held(child))).collect();
        let tree = Tree::join(node_id(ROOT), PartitionSet::new(), &leaves);
        let call = Call { losses_max, spare, hedge, ..call(tag, tree, Duration::from_secs(1)) };
        self.feed(Input::Message { from: node_id(0), message: Message::Call(Box::new(call)) });
    }

    fn feed(&mut self, input: Input<Bytes>) {
        self.node.handle_input(self.now, input);
        self.perform();
    }

    fn hear(&mut self, from: NodeId, said: Partial<Bytes>) {
        self.feed(Input::Message { from, message: Message::Partial(Box::new(said)) });
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        if self.node.poll_timeout().is_some_and(|at| at <= self.now) {
            self.node.handle_timeout(self.now);
            self.perform();
        }
    }

    fn perform(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Send { to, message: Message::Call(call) } => {
                    self.asked.push((to, call.tag.branch, call.tree.partitions()));
                    self.signs.push(call.times.sign_after);
                }
                Effect::Send { to, message: Message::Cancel { tag } } => {
                    self.dismissed.push((to, tag.branch));
                }
                Effect::Send { to, message: Message::WantCards } => self.questioned.push(to),
                Effect::Disconnect { peer } => self.disconnected.push(peer),
                Effect::Run(job) => {
                    let Work::Reduce { mut parts, .. } = job.work else { continue };
                    let result = Ok(parts.swap_remove(0));
                    let input = Input::JobDone { job: job.id, result, cost: Duration::from_nanos(9) };
                    self.node.handle_input(self.now, input);
                }
                _ => {}
            }
        }
    }

    /// The partitions lost for good by the running count and by a scan of all children, and the number in the
    /// wave's progress.
    fn lost(&mut self) -> Option<(PartitionSet, PartitionSet, usize)> {
        let wave = self.node.waves.open.find_mut(&TAG)?;
        Some((wave.lost_for_good().clone(), wave.not_in_hand(), wave.progress().lost))
    }
}

/// A child lost one partition and gave the other. Once a replica gives the first, the child has nothing more
/// to give.
#[test]
fn child_is_not_awaited_once_a_replica_gave_its_losses() {
    let mut root = Root::new(1, 1, false, 1);
    let (child, branch, of) = root.asked[0].clone();
    let lost = PartitionSet::alone(of.least().expect("it has partitions"));
    let missing =
        alloc::vec![Missing { partitions: lost.clone(), node: Some(child), reason: Reason::TooBusy }];
    root.hear(child, partial(branch, PartitionSet::new(), missing, false));
    root.hear(child, partial(branch, of.difference(&lost), Vec::new(), false));
    let (replica, replica_branch, asked) = root.asked[CHILDREN as usize].clone();
    assert_eq!(asked, lost);
    assert!(root.dismissed.is_empty());
    root.hear(replica, partial(replica_branch, lost, Vec::new(), true));
    assert_eq!(root.dismissed, [(child, branch)]);
}

/// A partial after which others are open moves no timer. The timer then fires in vain, and later ones are as they would be.
#[test]
fn a_timer_that_was_set_for_a_child_that_has_answered_fires_in_vain() {
    let mut root = Root::new(0, 0, false, 0);
    let asked = root.asked.clone();
    let at = root.node.poll_timeout();
    for (child, branch, of) in &asked[1..] {
        root.hear(*child, partial(*branch, of.clone(), Vec::new(), true));
        assert!(root.node.poll_timeout() <= at, "the first child may still be late then");
    }
    let before = (root.asked.len(), root.dismissed.len());
    let (slow, branch, of) = asked[0].clone();
    root.hear(slow, partial(branch, PartitionSet::new(), Vec::new(), false));
    root.pass(at.expect("its children may be late").since(root.now));
    assert_eq!((root.asked.len(), root.dismissed.len()), before, "a sign of life came: nobody is late");
    assert!(root.node.poll_timeout() > at, "the slow child may be late after that");
    root.hear(slow, partial(branch, of, Vec::new(), true));
    assert!(root.node.waves.has_no_open_waves());
}

/// A process of a network knows its own part only. A child that it asked whether it works shows its card after its answer, and
/// may have sent calls of its own before.
#[test]
fn process_of_a_network_keeps_the_connection_of_a_child_that_shows_its_card() {
    let mut config = summing(node_id(ROOT));
    config.card.parent = Some(node_id(0));
    config.tuning.membership.gossips = false;
    let mut root = Root::of(config, 0, 0, false, 0);
    let (child, branch, of) = root.asked[0].clone();
    root.feed(Input::Connected { peer: child });
    root.questioned.clear();
    while !root.questioned.contains(&child) {
        root.pass(Duration::from_millis(10));
    }
    root.hear(child, partial(branch, of, Vec::new(), true));
    let mut shown = MemberCard::new(child);
    shown.parent = Some(node_id(0));
    root.feed(Input::Message { from: child, message: Message::Cards(alloc::vec![Arc::new(shown)].into()) });
    assert!(root.node.cx.view().contains(&child));
    assert_eq!(root.disconnected, []);
}

proptest! {
    /// The running count of losses equals a scan of all children, in any order of messages, failures and
    /// timeouts.
    #[test]
    fn lost_partitions_match_a_scan_of_all_children(
        spare in 0..2 * CHILDREN,
        losses_max in 0..2 * CHILDREN,
        hedge in any::<bool>(),
        replicas in 0usize..3,
        steps in proptest::collection::vec((0u8..8, any::<u32>(), 0u64..60), 1..60),
    ) {
        let mut root = Root::new(spare, losses_max, hedge, replicas);
        for (what, which, wait_ms) in steps {
            let (node, branch, of) = root.asked[which as usize % root.asked.len()].clone();
            let first = of.least().map_or(PartitionSet::new(), PartitionSet::alone);
            let reason = if which & 1 == 0 { Reason::LocalFailed("no".into()) } else { Reason::Late };
            let failed = |partitions: &PartitionSet| {
                alloc::vec![Missing { partitions: partitions.clone(), node: Some(node), reason: reason.clone() }]
            };
            let said = match what {
                0..3 => Some(partial(branch, of, Vec::new(), true)),
                3 => Some(partial(branch, of.difference(&first), failed(&first), true)),
                4 => Some(partial(branch, PartitionSet::new(), failed(&first), false)),
                // The child neither gives all its partitions nor reports the others as missing.
                5 => Some(partial(branch, first, Vec::new(), true)),
                _ => None,
            };
            match said {
                Some(said) => root.hear(node, said),
                None if what == 6 => root.feed(Input::Lost { peer: node }),
                None => root.pass(Duration::from_millis(wait_ms)),
            }
            let Some((lost, all, counted)) = root.lost() else { break };
            prop_assert_eq!(&lost, &all);
            let is_counted = !root.node.waves.open.find(&TAG).is_none_or(|wave| wave.losses.noted.is_empty());
            prop_assert_eq!(counted, if is_counted { all.len() } else { 0 });
        }
    }
}

#[test]
fn child_that_is_asked_for_what_has_arrived_is_dismissed() {
    use crate::call::repair::tests::{NOW, front, name_of, wave};
    use crate::wave::contributors::Part;
    let (mut front, mut wave) = (front(), wave(&[3]));
    let one = PartitionSet::first(1);
    wave.claim(Part { payload: Bytes::from_static(b"1"), contributors: one.clone() });
    wave.losses.note_part(&one);
    wave.dismiss_rivals(&mut front.cx, NOW);
    wave.adopt(&mut desk!(front), NOW, 0, &[Tree::leaf(name_of(1), one.clone())]);
    assert_eq!(wave.seat.children.iter_open().count(), 1);
    wave.losses.note_part(&one);
    wave.dismiss_rivals(&mut front.cx, NOW);
    assert_eq!(wave.seat.children.iter_open().count(), 0);
}

/// A leaf whose local waits for another service holds its worker meanwhile.
#[test]
fn locals_that_wait_count_with_the_time_for_which_they_hold_a_processor() {
    let mut config = summing(node_id(ROOT));
    config.kinds[0].placement = Placement::Pool;
    config.card.services = card(ROOT).services;
    let mut node: Node<Bytes> = Node::new(config, Instant::START);
    let parent = node_id(FIRST_CHILD);
    let ask = |node: &mut Node<Bytes>, now: Instant, sequence: u64, answer_ms: u64| {
        let tag = Tag { wave: WaveId { origin: 1, sequence }, branch: 0 };
        let tree = Tree::leaf(node_id(ROOT), PartitionSet::alone(0));
        let call = call(tag, tree, Duration::from_millis(answer_ms));
        node.handle_input(now, Input::Message { from: parent, message: Message::Call(Box::new(call)) });
        let (mut jobs, mut losses) = (Vec::new(), Vec::new());
        while let Some(effect) = node.poll_effect() {
            match effect {
                Effect::Run(job) => jobs.push(job.id),
                Effect::Send { message: Message::Partial(partial), .. } => losses.extend(partial.missing),
                _ => {}
            }
        }
        (jobs, losses.into_iter().map(|loss| loss.reason).collect::<Vec<_>>())
    };
    let at = |ms| Instant::START + Duration::from_millis(ms);
    let (jobs, _) = ask(&mut node, at(0), 1, 10_000);
    let (result, cost) = (Ok(Bytes::from_static(&[1])), Duration::from_millis(1));
    node.handle_input(at(300), Input::JobDone { job: jobs[0], result, cost });
    while node.poll_effect().is_some() {}
    let (_, lost) = ask(&mut node, at(300), 2, 100);
    assert_eq!(lost, [], "nothing waits: the node finds out whether locals are still slow");
    let queued = node.cx.load_figure().queued;
    assert_eq!(queued, Duration::from_millis(300), "not the millisecond of processor time");
    let (_, lost) = ask(&mut node, at(300), 3, 500);
    assert_eq!(lost, [Reason::TooBusy], "another one could not end in time");
}

/// A slow relay stands aside for others of its place only.
#[test]
fn a_slow_relay_is_used_while_the_quick_one_of_its_place_is_ejected() {
    let mut node: Node<Bytes> = Node::new(summing(node_id(ROOT)), Instant::START);
    let [quick, slow] = [2, 3].map(|number| {
        let mut card = MemberCard::new(node_id(number));
        card.roles.relay = true;
        Arc::new(card)
    });
    let cards = alloc::vec![Arc::clone(&quick), Arc::clone(&slow)];
    node.handle_input(
        Instant::START,
        Input::Message { from: quick.node, message: Message::Cards(cards.into()) },
    );
    let now = Instant::START + Duration::from_millis(1);
    let place = place_of(&quick);
    for (relay, ms) in core::iter::repeat_n([(&quick, 1), (&slow, 300)], 9).flatten() {
        let took = Took::all(Duration::from_millis(ms));
        node.cx.loads.relay_speeds.learn(&place, relay.node, took, now);
    }
    node.cx.loads.relay_speeds.settle(&place, now, &mut node.cx.random);
    assert_eq!(node.cx.passed_over(now, false), [slow.node].into());
    for _ in 0..5 {
        node.cx.loads.relays_ejected.note_error(quick.node, now);
    }
    assert_eq!(node.cx.passed_over(now, false), [quick.node].into());
}

#[test]
fn nodes_that_never_send_signs_expect_none_however_well_the_usual_times_are_known() {
    for (sign_of_life, are_expected) in [(0.3, true), (1.0, false)] {
        let mut config = summing(node_id(ROOT));
        config.tuning.sign_of_life = sign_of_life;
        let mut root = Root::of(config, 0, 0, false, 0);
        assert!(root.signs.iter().all(Option::is_none), "nothing is known yet");
        for (child, branch, of) in root.asked.clone() {
            root.hear(child, partial(branch, of, Vec::new(), true));
        }
        root.signs.clear();
        root.call(Tag { wave: WaveId { origin: 1, sequence: 2 }, branch: 0 }, 0, 0, false);
        let signs = root.signs.iter().filter(|sign| sign.is_some()).count();
        assert_eq!(signs, if are_expected { CHILDREN as usize } else { 0 });
    }
}
