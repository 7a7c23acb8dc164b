//! Arbitrary messages.

use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::Arc;
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::error::{CallError, Missing, Reason};
use treefold_core::id::{NodeId, Tag, WaveId};
use treefold_core::load::figure::{CostFigure, LoadFigure, LoadNews, Took};
use treefold_core::membership::card::{MemberCard, Placed, Roles, ServiceCard};
use treefold_core::membership::service::AgreedTotal;
use treefold_core::message::{
    Call, CallTimes, Cards, DeclaredReduce, Message, OperatorStatus, Partial, Report, Request,
};
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;
use treefold_core::placement::{LoadFailure, PlacementAsk, PlacementReport, REPLICAS_MAX, ServicePlacement};
use treefold_core::push::PushRequest;
use treefold_core::push::message::PushMessage;
use treefold_core::replica::ReplicaPolicy;
use treefold_core::schedule::share::{Class, ServiceAccount, ServiceShare, ShareSetting, SharesReport};
use treefold_core::status::{
    CallCounters, Counters, MemberStatus, NodeStatus, OpenWork, ProcessFacts, RefusedTotal, SlowNode,
    StreamStatus, TotalStatus, WaveCounters,
};
use treefold_core::stream::OperatorId;
use treefold_core::stream::traffic::StreamTraffic;
use treefold_core::time::Duration;
use treefold_core::tree::Tree;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;

fn addr() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<([u8; 4], u16)>().prop_map(SocketAddr::from);
    let v6 = any::<([u8; 16], u16)>().prop_map(SocketAddr::from);
    prop_oneof![3 => v4, 1 => v6]
}

pub(super) fn node() -> impl Strategy<Value = NodeId> {
    (addr(), any::<u64>()).prop_map(|(addr, generation)| NodeId::new(addr, generation))
}

fn tag() -> impl Strategy<Value = Tag> {
    any::<(u64, u64, u32)>()
        .prop_map(|(origin, sequence, branch)| Tag { wave: WaveId { origin, sequence }, branch })
}

pub(super) fn set() -> impl Strategy<Value = PartitionSet> {
    let scattered = btree_set(0_u32..1 << 20, 0..4).prop_map(|set| set.into_iter().collect());
    let ranged = (0_u32..1 << 19, 0_u32..1 << 19)
        .prop_map(|(start, count)| PartitionSet::from_range(start..start + count));
    prop_oneof![scattered, ranged]
}

fn micros() -> impl Strategy<Value = Duration> {
    (0_u64..1 << 40).prop_map(Duration::from_micros)
}

pub(super) fn nanos() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

pub(super) fn name() -> impl Strategy<Value = String> {
    "\\PC{0,40}"
}

fn shared_text() -> impl Strategy<Value = Arc<str>> {
    name().prop_map(Arc::from)
}

/// Usually short, sometimes long enough to be shared or to go in chunks of 8 KiB.
pub(super) fn payload() -> impl Strategy<Value = Bytes> {
    let long = (any::<u8>(), 3_000_usize..30_000).prop_map(|(byte, len)| vec![byte; len]);
    prop_oneof![4 => vec(any::<u8>(), 0..64), 1 => long].prop_map(Bytes::from)
}

pub(super) fn tree() -> impl Strategy<Value = Tree> {
    let leaf = (node(), set()).prop_map(|(node, set)| Tree::leaf(node, set));
    leaf.prop_recursive(4, 40, 4, |inner| {
        (node(), set(), vec(inner, 0..4)).prop_map(|(node, set, children)| Tree::join(node, set, &children))
    })
}

fn report() -> impl Strategy<Value = Box<Report>> {
    let times = [nanos(), nanos(), nanos(), nanos(), nanos()];
    let alone = (node(), name(), set(), times, vec(node(), 0..3))
        .prop_map(|(node, rack, partitions, times, replaced)| {
            let [queue, local, reduce, wait, total] = times.map(std::time::Duration::from);
            Report {
                node,
                rack,
                partitions,
                queue,
                local,
                reduce,
                wait,
                total,
                replaced,
                children: Vec::new(),
            }
        })
        .boxed();
    let root = alone.clone();
    let tree = alone.prop_recursive(4, 20, 3, move |inner| {
        (root.clone(), vec(inner, 0..3)).prop_map(|(report, children)| Report { children, ..report })
    });
    tree.prop_map(Box::new)
}

fn waiting() -> impl Strategy<Value = Waiting> {
    let slope = (0.0..=1.0, 0.0..=1.0)
        .prop_map(|(a, b): (f64, f64)| Waiting::Slope { f_min: a.min(b), f_max: a.max(b) });
    let others = [Waiting::Uniform, Waiting::Staged, Waiting::StagedReversed, Waiting::Learned].to_vec();
    prop_oneof![2 => proptest::sample::select(others), 1 => slope]
}

fn reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        Just(Reason::NoReplica),
        Just(Reason::Lost),
        Just(Reason::Late),
        Just(Reason::TooBusy),
        shared_text().prop_map(Reason::Full),
        Just(Reason::UnknownAggregation),
        Just(Reason::NotHosted),
        shared_text().prop_map(Reason::LocalFailed),
        shared_text().prop_map(Reason::LocalPanicked),
        shared_text().prop_map(Reason::ReduceFailed),
        Just(Reason::Overlap),
        Just(Reason::Cancelled),
        Just(Reason::ShuttingDown),
        shared_text().prop_map(Reason::FilterFailed),
        Just(Reason::Lagging),
        shared_text().prop_map(Reason::InvalidParams),
        (17_u32.., shared_text()).prop_map(|(code, detail)| Reason::Other { code, detail }),
    ]
}

pub(super) fn missing() -> impl Strategy<Value = Vec<Missing>> {
    let loss = (set(), option::of(node()), reason()).prop_map(|(partitions, node, reason)| Missing {
        partitions,
        node,
        reason,
    });
    vec(loss, 0..4)
}

fn load() -> impl Strategy<Value = LoadFigure> {
    (micros(), any::<u32>(), any::<u32>(), micros()).prop_map(|(queued, in_flight, processors, latency)| {
        LoadFigure { queued, in_flight, processors, latency }
    })
}

fn cost() -> impl Strategy<Value = CostFigure> {
    (option::of(nanos()), option::of(nanos())).prop_map(|(local, reduce)| CostFigure { local, reduce })
}

/// Half of them with parameters of single partitions, half with parameters of the reduce.
fn params() -> impl Strategy<Value = Params<Bytes>> {
    let own =
        prop_oneof![Just(Vec::new()), btree_map(0_u32..1 << 20, payload(), 1..4).prop_map(Vec::from_iter)];
    (payload(), own, option::of(payload())).prop_map(|(common, own, reduce)| {
        Params::new(common, own).expect("each partition is there once").with_reduce(reduce)
    })
}

fn call() -> impl Strategy<Value = Message<Bytes>> {
    let sign = option::of((1_u64..1 << 40).prop_map(Duration::from_micros));
    let times = (micros(), (micros(), sign), waiting(), any::<[u32; 3]>(), (any::<[bool; 4]>(), pushed()));
    let slice = (1_u32..=256, any::<u32>(), any::<bool>()).prop_map(|(of, index, is_alone)| {
        let slice = if is_alone { Slice::alone } else { Slice::new };
        slice(index % of, of).expect("it is below")
    });
    (tag(), shared_text(), option::of(params()), times, tree(), slice).prop_map(
        |(
            tag,
            name,
            params,
            (deadline_left, (answer_left, sign_after), waiting, losses, flags),
            tree,
            slice,
        )| {
            let ([losses_max, spare, in_flight], ([hedge, explain, loads_wanted, whole], push)) =
                (losses, flags);
            Message::Call(Box::new(Call {
                tag,
                name,
                params,
                times: CallTimes { deadline_left, answer_left, sign_after },
                waiting,
                losses_max,
                spare,
                hedge,
                tree,
                explain,
                loads_wanted,
                slice,
                push,
                in_flight,
                whole,
            }))
        },
    )
}

/// Figures about a third node have a precision of 32 bits of microseconds.
fn loads() -> impl Strategy<Value = Vec<LoadNews>> {
    let micros = || any::<u32>().prop_map(|us| Duration::from_micros(us.into()));
    let news = (node(), micros(), micros(), any::<u32>(), any::<u32>(), micros(), took()).prop_map(
        |(node, age, queued, in_flight, processors, latency, time)| LoadNews {
            node,
            age,
            time,
            figure: LoadFigure { queued, in_flight, processors, latency },
        },
    );
    prop::collection::vec(news, 0..9)
}

fn took() -> impl Strategy<Value = Option<Took>> {
    let took = (1_u64..1 << 31, any::<bool>());
    option::of(took.prop_map(|(us, at_least)| Took { time: Duration::from_micros(us), at_least }))
}

/// A known time is at least a microsecond.
fn time() -> impl Strategy<Value = Option<Duration>> {
    option::of((1..u32::MAX).prop_map(|us| Duration::from_micros(us.into())))
}

fn partial() -> impl Strategy<Value = Message<Bytes>> {
    let rest =
        (any::<bool>(), load(), (took(), time()), loads(), cost(), vec(node(), 0..3), option::of(report()));
    (tag(), option::of(payload()), set(), missing(), rest).prop_map(
        |(
            tag,
            payload,
            contributors,
            missing,
            (last, load, (own, served), loads, cost, given_up, report),
        )| {
            let partial = Partial {
                tag,
                payload,
                contributors,
                missing,
                last,
                load,
                own,
                served,
                loads,
                cost,
                given_up,
                report,
            };
            Message::Partial(Box::new(partial))
        },
    )
}

fn options() -> impl Strategy<Value = CallOptions> {
    let shape = prop_oneof![
        Just(Shape::Base),
        Just(Shape::Flat),
        Just(Shape::Chain),
        (1_u32..64).prop_map(Shape::KAry),
        Just(Shape::Binomial),
        Just(Shape::Adaptive),
        Just(Shape::EarliestReady),
    ];
    let policy = prop_oneof![
        Just(ReplicaPolicy::Random),
        Just(ReplicaPolicy::RoundRobin),
        Just(ReplicaPolicy::Announced),
        Just(ReplicaPolicy::AnnouncedRaw),
        Just(ReplicaPolicy::PeakEwma),
        Just(ReplicaPolicy::Prequal),
        Just(ReplicaPolicy::PrequalInline),
        (1_u32..=16).prop_map(|polls| ReplicaPolicy::Polled { polls }),
    ];
    // Without negative zero, which protobuf does not distinguish from zero.
    let coverage = any::<f64>().prop_map(|coverage| coverage + 0.0);
    let rest = (any::<[bool; 2]>(), (1_u32..300, option::of(any::<u32>())), pushed());
    (micros(), coverage, shape, option::of(policy), waiting(), option::of(set()), rest).prop_map(
        |(
            deadline,
            min_coverage,
            shape,
            policy,
            waiting,
            partitions,
            ([hedge, explain], (slices, only_slice), push),
        )| {
            CallOptions {
                deadline,
                min_coverage,
                shape,
                policy,
                waiting,
                hedge,
                partitions,
                explain,
                slices,
                only_slice,
                push,
            }
        },
    )
}

fn pushed() -> impl Strategy<Value = Option<PushRequest>> {
    let announced = (any::<u64>(), micros());
    option::of(announced.prop_map(|(request, patience)| PushRequest { request, patience }))
}

fn push() -> impl Strategy<Value = PushMessage<Bytes>> {
    let request = any::<u64>;
    prop_oneof![
        (name(), any::<u32>())
            .prop_map(|(name, worker)| PushMessage::Attach { application: name.into(), worker }),
        any::<u64>().prop_map(|window| PushMessage::Attached { result: Ok(window) }),
        shared_text().prop_map(|problem| PushMessage::Attached { result: Err(problem) }),
        (request(), 1_u32.., any::<bool>(), payload()).prop_map(|(request, sequence, last, payload)| {
            PushMessage::Push { request, sequence, last, payload }
        }),
        (request(), shared_text()).prop_map(|(request, problem)| PushMessage::Failed { request, problem }),
        (request(), any::<u32>(), any::<bool>()).prop_map(|(request, after, again)| PushMessage::Wanted {
            request,
            after,
            again
        }),
        (request(), any::<u32>()).prop_map(|(request, upto)| PushMessage::Taken { request, upto }),
        request().prop_map(|request| PushMessage::Ended { request }),
    ]
}

fn verdict() -> impl Strategy<Value = Status> {
    let error = prop_oneof![
        (name(), name(), name()).prop_map(|(field, given, limit)| CallError::BadField {
            field,
            given,
            limit
        }),
        name().prop_map(|service| CallError::UnknownService { service }),
        any::<usize>().prop_map(|limit| CallError::TooManyCalls { limit }),
        any::<usize>().prop_map(|limit| CallError::TooManyCallsOfClient { limit }),
        Just(CallError::ShuttingDown),
        (name(), name()).prop_map(|(right, service)| CallError::Denied { right, service }),
    ];
    prop_oneof![
        Just(Status::Full),
        Just(Status::Partial),
        Just(Status::Insufficient),
        error.prop_map(Status::Rejected),
    ]
}

fn outcome() -> impl Strategy<Value = Box<Outcome<Bytes>>> {
    let rest = (any::<bool>(), nanos(), option::of(report()));
    (verdict(), option::of(payload()), set(), set(), missing(), rest).prop_map(
        |(status, value, asked, contributed, missing, (total_is_guess, elapsed, report))| {
            Box::new(Outcome { status, value, asked, contributed, missing, total_is_guess, elapsed, report })
        },
    )
}

fn cards() -> impl Strategy<Value = Cards> {
    let totals = proptest::collection::btree_map(".{0,20}", 0_u32..=1 << 20, 0..4);
    (vec(card(), 0..4), totals).prop_map(|(cards, totals)| Cards { cards, totals })
}

fn card() -> impl Strategy<Value = Arc<MemberCard>> {
    let placed = (0..=REPLICAS_MAX, set(), set()).prop_map(|(replicas, pinned, refused)| Placed {
        replicas,
        pinned,
        refused,
    });
    let service = (set(), 0_u32..=1 << 20, any::<bool>(), option::of(placed)).prop_map(
        |(partitions, total, declared, placed)| ServiceCard { partitions, total, declared, placed },
    );
    let rest = (any::<u32>(), btree_map(name(), service, 0..4));
    let nodes = (node(), option::of(node()));
    (nodes, any::<u64>(), [name(), name(), name()], any::<(bool, bool, bool)>(), rest).prop_map(
        |(
            (node, parent),
            version,
            [rack, zone, name],
            (provider, relay, draining),
            (processors, services),
        )| {
            let roles = Roles { provider, relay, draining };
            Arc::new(MemberCard { node, version, rack, zone, name, roles, parent, processors, services })
        },
    )
}

fn status() -> impl Strategy<Value = Box<NodeStatus>> {
    let member = (card(), load(), option::of(any::<u64>()))
        .prop_map(|(card, load, load_age_ms)| MemberStatus { card, load, load_age_ms });
    let counted = any::<([u64; 3], [usize; 5])>().prop_map(|(counts, sizes)| {
        let [started, locals_run, bad_messages] = counts;
        let [calls, held_bytes, jobs_stuck, streams, stream_bytes] = sizes;
        (
            Counters {
                calls: CallCounters { started, ..CallCounters::default() },
                waves: WaveCounters { locals_run, ..WaveCounters::default() },
                bad_messages,
                ..Counters::default()
            },
            OpenWork { calls, held_bytes, jobs_stuck, streams, stream_bytes, ..OpenWork::default() },
        )
    });
    let claim = || any::<(u32, bool)>().prop_map(|(total, declared)| AgreedTotal { total, declared });
    let refused = (node(), claim()).prop_map(|(node, claim)| RefusedTotal { node, claim });
    let total = (name(), claim(), vec(refused, 0..3)).prop_map(|(service, agreed, refused)| TotalStatus {
        service,
        agreed,
        refused,
    });
    let stream = (name(), name(), any::<(bool, [u32; 3], u64, [u64; 9])>()).prop_map(
        |(service, up_filter, (is_front, [children, endpoints, away], held_bytes, traffic))| StreamStatus {
            service: service.into(),
            up_filter: up_filter.into(),
            is_front,
            children,
            endpoints,
            away,
            held_bytes,
            traffic: StreamTraffic::of_row(traffic),
        },
    );
    let process = (name(), any::<u64>()).prop_map(|(build, unix_ms)| ProcessFacts { build, unix_ms });
    let slow = (node(), name(), [micros(), micros(), micros()]).prop_map(
        |(node, aggregation, [time, usual, lasts])| SlowNode {
            node,
            aggregation: aggregation.into(),
            time,
            usual,
            lasts,
        },
    );
    let rest = (vec(total, 0..3), any::<bool>(), vec(stream, 0..3), vec(slow, 0..3), process);
    (card(), load(), counted, vec(member, 0..3), rest).prop_map(
        |(card, load, (counters, open), members, (totals, unreached_by_udp, streams, slow, process))| {
            Box::new(NodeStatus {
                card,
                load,
                counters,
                open,
                members,
                totals,
                unreached_by_udp,
                streams,
                slow,
                process,
            })
        },
    )
}

fn operators() -> impl Strategy<Value = Result<Vec<OperatorStatus>, Arc<str>>> {
    let kept = (any::<[u8; 32]>(), "\\PC{0,8}", any::<[u64; 2]>(), any::<u32>()).prop_map(
        |(id, kind, [bytes, uses], streams)| {
            let (id, kind) = (OperatorId(id), kind.into());
            OperatorStatus { id, kind, bytes, uses, streams }
        },
    );
    prop_oneof![3 => vec(kept, 0..4).prop_map(Ok), 1 => shared_text().prop_map(Err)]
}

fn settings() -> impl Strategy<Value = Vec<ShareSetting>> {
    let class = option::of(prop_oneof![Just(Class::Interactive), Just(Class::Batch)]);
    // Includes invalid shares: the node checks the bounds, not the wire.
    let setting = ("\\PC{0,8}", -1.0f64..2_000.0, class).prop_map(|(service, share, class)| ShareSetting {
        service,
        share,
        class,
    });
    vec(setting, 0..4)
}

fn shares() -> impl Strategy<Value = Result<Box<SharesReport>, Arc<str>>> {
    let account = ("\\PC{0,8}", settings(), any::<[u32; 8]>()).prop_map(|(service, settings, counts)| {
        let [used, recent, jobs_done, jobs_queued, queued, refused, held, held_max] = counts;
        let share = settings.first().map_or(1.0, |setting| setting.share);
        ServiceAccount {
            service: service.into(),
            share: if used > recent { ServiceShare::batch(share) } else { share.into() },
            used: Duration::from_nanos(used.into()).into(),
            recent: Duration::from_nanos(recent.into()).into(),
            jobs_done: jobs_done.into(),
            jobs_queued: jobs_queued as usize,
            queued: Duration::from_nanos(queued.into()).into(),
            refused: refused.into(),
            held_bytes: held as usize,
            held_bytes_max: held_max as usize,
        }
    });
    let report = (any::<u32>(), any::<[u64; 2]>(), vec(account, 0..4)).prop_map(
        |(processors, [uptime, window], services)| {
            let (uptime, window) = (Duration::from_nanos(uptime), Duration::from_nanos(window));
            Box::new(SharesReport { processors, uptime: uptime.into(), window: window.into(), services })
        },
    );
    prop_oneof![3 => report.prop_map(Ok), 1 => shared_text().prop_map(Err)]
}

fn placement_ask() -> impl Strategy<Value = PlacementAsk> {
    let of = || (shared_text(), set());
    prop_oneof![
        Just(PlacementAsk::Show),
        any::<bool>().prop_map(PlacementAsk::Drain),
        of().prop_map(|(service, partitions)| PlacementAsk::Pin { service, partitions }),
        of().prop_map(|(service, partitions)| PlacementAsk::Refuse { service, partitions }),
        of().prop_map(|(service, partitions)| PlacementAsk::Release { service, partitions }),
    ]
}

fn placement() -> impl Strategy<Value = Result<Box<PlacementReport>, Arc<str>>> {
    let failure = (any::<u32>(), any::<u32>(), shared_text())
        .prop_map(|(partition, tries, reason)| LoadFailure { partition, tries, reason });
    let sets = [set(), set(), set(), set(), set(), set(), set()];
    let service = (name(), any::<[u32; 2]>(), sets, vec(failure, 0..3)).prop_map(
        |(
            service,
            [total, replicas],
            [held, assigned, loading, leaving, pinned, refused, alone],
            failures,
        )| {
            ServicePlacement {
                service,
                total,
                replicas,
                held,
                assigned,
                loading,
                leaving,
                pinned,
                refused,
                alone,
                failures,
            }
        },
    );
    let report = (any::<[bool; 2]>(), vec(service, 0..3)).prop_map(|([draining, is_calm], services)| {
        Box::new(PlacementReport { draining, is_calm, services })
    });
    prop_oneof![3 => report.prop_map(Ok), 1 => shared_text().prop_map(Err)]
}

/// Any message within the default limits.
pub(super) fn message() -> impl Strategy<Value = Message<Bytes>> {
    let request = (any::<u64>(), shared_text(), params(), options())
        .prop_map(|(id, name, params, options)| Request { id, name, params, options });
    prop_oneof![
        4 => call(),
        4 => partial(),
        1 => (tag(), any::<u64>()).prop_map(|(tag, bytes)| Message::Offer { tag, bytes }),
        1 => tag().prop_map(|tag| Message::Grant { tag }),
        1 => tag().prop_map(|tag| Message::Cancel { tag }),
        2 => request.prop_map(|request| Message::Request(Box::new(request))),
        2 => (any::<u64>(), outcome()).prop_map(|(id, outcome)| Message::Reply { id, outcome }),
        1 => any::<u64>().prop_map(|id| Message::CancelRequest { id }),
        1 => cards().prop_map(Message::Cards),
        1 => Just(Message::WantCards),
        1 => vec(any::<u8>(), 0..1_400).prop_map(|datagram| Message::Gossip { datagram }),
        8 => super::stream::message(),
        3 => push().prop_map(|message| Message::Push(Box::new(message))),
        1 => (any::<u64>(), option::of(payload()))
            .prop_map(|(id, payload)| Message::OperatorRequest { id, payload }),
        1 => (any::<u64>(), operators()).prop_map(|(id, result)| Message::OperatorReply { id, result }),
        1 => Just(Message::ReducesWant),
        1 => proptest::collection::vec((".{0,20}", ".{0,20}", proptest::collection::vec(any::<u8>(), 0..9), ".{0,9}"), 0..4)
            .prop_map(|reduces| Message::Reduces {
                reduces: reduces
                    .into_iter()
                    .map(|(name, reduce, params, field)| DeclaredReduce { name, reduce, params, field })
                    .collect(),
            }),
        1 => any::<[u8; 32]>().prop_map(|id| Message::OperatorWant { id: OperatorId(id) }),
        1 => (any::<[u8; 32]>(), option::of(payload()))
            .prop_map(|(id, payload)| Message::OperatorLent { id: OperatorId(id), payload }),
        1 => (any::<u64>(), settings()).prop_map(|(id, settings)| Message::SharesRequest { id, settings }),
        1 => (any::<u64>(), shares()).prop_map(|(id, result)| Message::SharesReply { id, result }),
        1 => (any::<u64>(), placement_ask()).prop_map(|(id, ask)| Message::PlacementRequest { id, ask }),
        1 => (any::<u64>(), placement()).prop_map(|(id, result)| Message::PlacementReply { id, result }),
        1 => any::<u64>().prop_map(|id| Message::StatusRequest { id }),
        1 => (any::<u64>(), status()).prop_map(|(id, status)| Message::Status { id, status }),
    ]
}
