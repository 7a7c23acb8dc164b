//! One message of each kind, small enough to read its bytes by eye.

use crate::wire::{Assignment, Failed, Fault, FaultCode, GroupKey, Hello, Launch, Launcher, Started};
use bytes::Bytes;
use std::sync::Arc;
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::error::{Missing, Reason};
use treefold_core::id::{NodeId, Tag, WaveId};
use treefold_core::load::figure::{CostFigure, LoadFigure, LoadNews, Took};
use treefold_core::membership::card::{MemberCard, Placed, Roles, ServiceCard};
use treefold_core::membership::service::AgreedTotal;
use treefold_core::message::{
    Call, CallTimes, Cards, DeclaredReduce, Message, OperatorStatus, Partial, Report, Request,
};
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;
use treefold_core::placement::{LoadFailure, PlacementAsk, PlacementReport, ServicePlacement};
use treefold_core::push::PushRequest;
use treefold_core::push::message::PushMessage;
use treefold_core::schedule::share::{Class, ServiceAccount, ServiceShare, ShareSetting, SharesReport};
use treefold_core::status::{
    CallCounters, Counters, MemberStatus, NodeStatus, OpenWork, ProcessFacts, RefusedTotal, StreamStatus,
    TotalStatus,
};
use treefold_core::stream::OperatorId;
use treefold_core::stream::traffic::StreamTraffic;
use treefold_core::time::Duration;
use treefold_core::tree::Tree;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;

/// Node `n` of a cluster of IPv4 addresses.
pub(super) fn node(n: u8) -> NodeId {
    NodeId::new(([10, 0, 0, n], 7700).into(), u64::from(n))
}

/// Branch 0 of wave `sequence`.
pub(super) fn tag(sequence: u64) -> Tag {
    Tag { wave: WaveId { origin: 0xfeed, sequence }, branch: 0 }
}

pub(super) fn set(partitions: impl IntoIterator<Item = u32>) -> PartitionSet {
    partitions.into_iter().collect()
}

/// The greeting of a build that keeps no trees.
pub(super) fn hello() -> Hello {
    Hello { trees: 0, ..hello_with_trees() }
}

/// The greeting of a build that does not know parameters of the reduce.
pub(super) fn hello_with_trees() -> Hello {
    Hello { reduce_params: false, ..hello_of_this_build() }
}

pub(super) fn hello_of_this_build() -> Hello {
    Hello::new("treefold", node(1))
}

pub(super) fn fault() -> Fault {
    Fault { code: FaultCode::TooLarge, field: "payload".into(), limit: 64 << 20 }
}

pub(super) fn tree() -> Tree {
    let leaf = |n: u8| Tree::leaf(node(n), set([u32::from(n) - 1]));
    Tree::join(node(1), set([0]), &[Tree::join(node(2), set([1]), &[leaf(3)]), leaf(4)])
}

pub(super) fn call() -> Call<Bytes> {
    Call {
        tag: tag(1),
        name: "search/topk".into(),
        params: Some(Bytes::from_static(b"rust").into()),
        times: CallTimes {
            deadline_left: Duration::from_millis(200),
            answer_left: Duration::from_millis(180),
            sign_after: None,
        },
        waiting: Waiting::Staged,
        losses_max: 1,
        spare: 0,
        hedge: false,
        tree: tree(),
        explain: false,
        loads_wanted: false,
        slice: Slice::WHOLE,
        push: None,
        in_flight: 0,
        whole: false,
    }
}

pub(super) fn partial(payload: impl Into<Bytes>) -> Partial<Bytes> {
    Partial {
        tag: tag(1),
        payload: Some(payload.into()),
        contributors: set([1, 2]),
        missing: Vec::new(),
        last: true,
        load: LoadFigure {
            queued: Duration::from_micros(1_500),
            in_flight: 2,
            processors: 4,
            latency: Duration::from_micros(420),
        },
        own: None,
        served: None,
        loads: Vec::new(),
        given_up: Vec::new(),
        cost: CostFigure { local: Some(Duration::from_micros(300)), reduce: Some(Duration::from_nanos(90)) },
        report: None,
    }
}

pub(super) fn report(children: Vec<Report>) -> Report {
    Report {
        node: node(2),
        rack: "r1".into(),
        partitions: set([1]),
        queue: Duration::from_nanos(1).into(),
        local: Duration::from_nanos(2).into(),
        reduce: Duration::from_nanos(3).into(),
        wait: Duration::from_nanos(4).into(),
        total: Duration::from_nanos(5).into(),
        replaced: Vec::new(),
        children,
    }
}

pub(super) fn loss() -> Missing {
    Missing { partitions: set([3]), node: Some(node(4)), reason: Reason::LocalFailed("disk".into()) }
}

fn outcome() -> Outcome<Bytes> {
    Outcome {
        status: Status::Partial,
        value: Some(Bytes::from_static(b"hits")),
        asked: set([0, 1, 2, 3]),
        contributed: set([0, 1, 2]),
        missing: vec![loss()],
        total_is_guess: false,
        elapsed: Duration::from_micros(950),
        report: Some(Box::new(report(vec![report(Vec::new())]))),
    }
}

pub(super) fn card() -> MemberCard {
    let topk = ServiceCard { partitions: set([0, 1, 4]), total: 8, declared: false, placed: None };
    MemberCard {
        node: node(1),
        version: 3,
        rack: "r1".into(),
        zone: String::new(),
        name: String::new(),
        roles: Roles { provider: true, relay: false, draining: false },
        parent: None,
        processors: 2,
        services: [("search".into(), topk)].into(),
    }
}

fn status() -> NodeStatus {
    let load = LoadFigure {
        queued: Duration::from_micros(7),
        in_flight: 1,
        processors: 2,
        latency: Duration::from_micros(13),
    };
    NodeStatus {
        card: Arc::new(card()),
        load,
        counters: Counters {
            calls: CallCounters { started: 9, ..CallCounters::default() },
            ..Counters::default()
        },
        open: OpenWork { calls: 1, streams: 2, stream_bytes: 5, ..OpenWork::default() },
        members: vec![MemberStatus { card: Arc::new(card()), load, load_age_ms: Some(12) }],
        totals: Vec::new(),
        unreached_by_udp: false,
        streams: Vec::new(),
        slow: Vec::new(),
        process: ProcessFacts::default(),
    }
}

/// A status with facts about the node's process.
fn of_a_process() -> NodeStatus {
    let process = ProcessFacts { build: "0.1.0".into(), unix_ms: 1_700_000_000_000 };
    NodeStatus { members: Vec::new(), process, ..status() }
}

/// A reply whose total is a guess.
fn guessed() -> Outcome<Bytes> {
    Outcome { total_is_guess: true, ..outcome() }
}

/// A card with a declared total beside one that is a guess.
fn declaring() -> MemberCard {
    let mut card = card();
    let words = ServiceCard { partitions: set([2]), total: 3, declared: true, placed: None };
    card.services.insert("words".into(), words);
    card
}

/// A card of a drained node with a name, and a service that is placed automatically.
fn placing() -> MemberCard {
    let mut card = declaring();
    card.name = "pod-1".into();
    card.roles.draining = true;
    let placed = Placed { replicas: 2, pinned: set([2]), refused: set([0, 1]) };
    card.services.entry("words".into()).and_modify(|words| words.placed = Some(placed));
    card
}

/// A card of a process of a network.
fn below() -> MemberCard {
    MemberCard { parent: Some(node(2)), ..card() }
}

/// A placement with every field set.
pub(super) fn placement() -> PlacementReport {
    let failure = LoadFailure { partition: 9, tries: 3, reason: "no such file".into() };
    let service = ServicePlacement {
        service: "search".into(),
        total: 64,
        replicas: 2,
        held: set([0, 1, 2, 7]),
        assigned: set([0, 1, 2, 3, 9]),
        loading: set([3]),
        leaving: set([8]),
        pinned: set([2]),
        refused: set([5, 6]),
        alone: set([7]),
        failures: vec![failure],
    };
    PlacementReport { draining: true, is_calm: true, services: vec![service] }
}

fn pin() -> PlacementAsk {
    PlacementAsk::Pin { service: "search".into(), partitions: set([2, 3]) }
}

/// A status with a member whose total is refused.
fn totalled() -> NodeStatus {
    let total = TotalStatus {
        service: "search".into(),
        agreed: AgreedTotal { total: 8, declared: true },
        refused: vec![RefusedTotal { node: node(4), claim: AgreedTotal { total: 9, declared: false } }],
    };
    NodeStatus { totals: vec![total], members: Vec::new(), ..status() }
}

/// A status of a node that UDP does not reach.
fn unreached() -> NodeStatus {
    NodeStatus { members: Vec::new(), unreached_by_udp: true, ..status() }
}

/// A status of a node that takes part in a stream.
fn streaming() -> NodeStatus {
    let stream = StreamStatus {
        service: "hosts".into(),
        up_filter: "hosts/fold".into(),
        is_front: true,
        children: 2,
        endpoints: 5,
        away: 1,
        held_bytes: 300,
        traffic: StreamTraffic {
            packets_in: 7,
            bytes_in: 90,
            waves: 2,
            filter_us: 300,
            ..StreamTraffic::default()
        },
    };
    NodeStatus { members: Vec::new(), streams: vec![stream], ..status() }
}

fn operator() -> OperatorStatus {
    OperatorStatus { id: OperatorId([0xab; 32]), kind: "filter".into(), bytes: 4, uses: 2, streams: 1 }
}

pub(super) fn settings() -> Vec<ShareSetting> {
    let setting = |service: &str, class| ShareSetting { service: service.into(), share: 3.0, class };
    vec![setting("search", None), setting("nightly", Some(Class::Batch))]
}

pub(super) fn shares() -> SharesReport {
    let account = ServiceAccount {
        service: "search".into(),
        share: ServiceShare::interactive(3.0),
        used: Duration::from_micros(9).into(),
        recent: Duration::from_micros(4).into(),
        jobs_done: 6,
        jobs_queued: 5,
        queued: Duration::from_micros(3).into(),
        refused: 2,
        held_bytes: 1,
        held_bytes_max: 7,
    };
    let batch = ServiceShare::batch(1.0);
    let other = ServiceAccount { service: "*".into(), share: batch, ..ServiceAccount::default() };
    SharesReport {
        processors: 2,
        uptime: Duration::from_millis(8).into(),
        window: Duration::from_millis(5).into(),
        services: vec![account, other],
    }
}

/// Two keys of datagrams.
pub(super) fn keys() -> Vec<GroupKey> {
    let whole = GroupKey { epoch: 3, id: 0x0102_0304_0506_0708, polls_only: false, secret: [9; 32] };
    vec![whole, GroupKey { epoch: 4, polls_only: true, ..whole }]
}

/// Reduces with parameters of both kinds.
pub(super) fn reduces() -> Vec<DeclaredReduce> {
    let of = |name: &str, reduce: &str| DeclaredReduce {
        name: name.into(),
        reduce: reduce.into(),
        params: Vec::new(),
        field: String::new(),
    };
    vec![
        DeclaredReduce { params: vec![0x81, 0xa1, 0x6b, 3], ..of("faces/nearest", "top-k") },
        DeclaredReduce { field: "reduce".into(), ..of("faces/largest", "top-k") },
        of("errors/run", "exec/sum-lines"),
    ]
}

/// Each kind of launch message, by name.
pub(super) fn launches() -> Vec<(&'static str, Launch)> {
    let started = || Started { place: "a:0".into(), card: Arc::new(card()) };
    let failed = Failed { place: "b:1".into(), what: "ended with 3".into(), last_words: vec!["oh".into()] };
    let assignment = Assignment {
        part: "a:0 => b:1 ;".into(),
        first: 3,
        total: 7,
        root: "10.0.0.1:7700".into(),
        launcher: Launcher::Ssh,
        ssh: vec!["ssh".into(), "-v".into()],
        inner: vec!["treefold".into()],
        back_end: vec!["tool".into()],
        remote_program: "/opt/treefold".into(),
        time_left: Duration::from_secs(3).into(),
    };
    vec![
        ("launch-attach", Launch::Attach(started())),
        ("launch-assign", Launch::Assign(Box::new(assignment))),
        ("launch-redirect", Launch::Redirect { addr: "10.0.0.2:7700".into() }),
        ("launch-refuse", Launch::Refuse { why: "no place".into() }),
        ("launch-report", Launch::Report { started: vec![started()], failed: vec![failed] }),
        ("launch-end", Launch::End),
        ("launch-leave", Launch::Leave),
    ]
}

/// Each kind of message, by name. Messages about streams are in [`super::stream`].
pub(super) fn messages() -> Vec<(&'static str, Message<Bytes>)> {
    let options = CallOptions {
        deadline: Duration::from_millis(200),
        min_coverage: 0.95,
        shape: Shape::KAry(8),
        partitions: Some(set([0, 1, 2, 3])),
        ..CallOptions::default()
    };
    let slope = Waiting::Slope { f_min: 0.25, f_max: 0.5 };
    let sliced = CallOptions { slices: 8, ..options.clone() };
    let hedged = CallOptions { waiting: slope, hedge: true, ..options.clone() };
    let request =
        Request { id: 7, name: "search/topk".into(), params: Bytes::from_static(b"rust").into(), options };
    let request_sliced = Request { options: sliced, ..request.clone() };
    let alone = CallOptions { slices: 4_096, only_slice: Some(2), ..request.options.clone() };
    let request_alone = Request { options: alone, ..request.clone() };
    let call_alone = Call { slice: Slice::alone(2, 4_096).expect("2 is below 4096"), ..call() };
    let request_hedged = Request { options: hedged, ..request.clone() };
    let call_sliced = Call { slice: Slice::new(2, 8).expect("2 is below 8"), ..call() };
    let call_hedged = Call { waiting: slope, spare: 1, hedge: true, ..call() };
    let lossy = Partial { payload: None, missing: vec![loss()], last: false, ..partial("") };
    let news =
        LoadNews { node: node(3), figure: partial("").load, age: Duration::from_micros(700), time: None };
    let timed = LoadNews { time: Some(Took::all(Duration::from_micros(90))), ..news };
    let own = Some(Took::all(Duration::from_micros(12)));
    let timing = Partial { own, loads: vec![timed, news], ..partial("sum") };
    let beaten = Some(Took::at_least(Duration::from_micros(1_234)));
    let hedged_here =
        Partial { own: beaten, loads: vec![LoadNews { time: beaten, ..news }], ..partial("sum") };
    let signing = CallTimes { sign_after: Some(Duration::from_millis(70)), ..call().times };
    let served = Partial { served: Some(Duration::from_micros(345)), ..timing.clone() };
    let bearing = Partial { loads: vec![news], ..partial("sum") };
    let telling = Partial { given_up: vec![node(3), node(4)], ..partial("sum") };
    let replacing = Report { replaced: vec![node(3)], ..report(vec![report(Vec::new())]) };
    let replacing = Partial { report: Some(Box::new(replacing)), ..partial("sum") };
    let push = Some(PushRequest { request: 7, patience: Duration::from_millis(2) });
    let announced = CallOptions { push, partitions: Some(set([0, 1, 2])), ..CallOptions::default() };
    let request_announced = Request { options: announced, ..request.clone() };
    let (request_plain, apart) = (request.clone(), Params::from(Bytes::from_static(b"rust")));
    let apart = apart.with_reduce(Some(Bytes::from_static(b"k")));
    let mut messages = vec![
        ("call", Message::Call(Box::new(call()))),
        ("call-in-flight", Message::Call(Box::new(Call { in_flight: 3, ..call() }))),
        ("call-for-signs", Message::Call(Box::new(Call { times: signing, ..call() }))),
        ("call-whole", Message::Call(Box::new(Call { whole: true, ..call() }))),
        ("call-for-loads", Message::Call(Box::new(Call { loads_wanted: true, ..call() }))),
        ("partial-with-loads", Message::Partial(Box::new(bearing))),
        ("partial-with-times", Message::Partial(Box::new(timing))),
        ("partial-beaten", Message::Partial(Box::new(hedged_here))),
        ("partial-served", Message::Partial(Box::new(served))),
        ("partial-with-given-up", Message::Partial(Box::new(telling))),
        ("partial-replaced", Message::Partial(Box::new(replacing))),
        ("call-sliced", Message::Call(Box::new(call_sliced))),
        ("request-sliced", Message::Request(Box::new(request_sliced))),
        ("call-slice-alone", Message::Call(Box::new(call_alone))),
        ("request-slice-alone", Message::Request(Box::new(request_alone))),
        ("call-hedged", Message::Call(Box::new(call_hedged))),
        ("partial", Message::Partial(Box::new(partial("sum")))),
        ("partial-of-nothing", Message::Partial(Box::new(lossy))),
        ("offer", Message::Offer { tag: tag(1), bytes: 300_000 }),
        ("grant", Message::Grant { tag: tag(1) }),
        ("cancel", Message::Cancel { tag: Tag { branch: 5, ..tag(1) } }),
        ("request", Message::Request(Box::new(request))),
        ("request-hedged", Message::Request(Box::new(request_hedged))),
        ("reply", Message::Reply { id: 7, outcome: Box::new(outcome()) }),
        ("reply-guess", Message::Reply { id: 7, outcome: Box::new(guessed()) }),
        ("cancel-request", Message::CancelRequest { id: 7 }),
        ("cards", Message::Cards(vec![Arc::new(card())].into())),
        (
            "cards-remembered",
            Message::Cards(Cards { cards: Vec::new(), totals: [("gone".to_owned(), 9)].into() }),
        ),
        ("cards-declared", Message::Cards(vec![Arc::new(declaring())].into())),
        ("cards-placed", Message::Cards(vec![Arc::new(placing())].into())),
        ("cards-below", Message::Cards(vec![Arc::new(below())].into())),
        ("want-cards", Message::WantCards),
        ("gossip", Message::Gossip { datagram: vec![0, 3, 1, 4, 1, 5] }),
        ("operator-push", Message::OperatorRequest { id: 9, payload: Some(Bytes::from_static(b"wasm")) }),
        ("operator-list", Message::OperatorRequest { id: 9, payload: None }),
        ("operator-reply", Message::OperatorReply { id: 9, result: Ok(vec![operator()]) }),
        ("operator-refused", Message::OperatorReply { id: 9, result: Err("too large".into()) }),
        ("operator-want", Message::OperatorWant { id: operator().id }),
        (
            "operator-lent",
            Message::OperatorLent { id: operator().id, payload: Some(Bytes::from_static(b"wasm")) },
        ),
        ("reduces-want", Message::ReducesWant),
        ("reduces", Message::Reduces { reduces: reduces() }),
        ("operator-lacking", Message::OperatorLent { id: operator().id, payload: None }),
        ("shares-set", Message::SharesRequest { id: 10, settings: settings() }),
        ("shares-show", Message::SharesRequest { id: 10, settings: Vec::new() }),
        ("shares-reply", Message::SharesReply { id: 10, result: Ok(Box::new(shares())) }),
        ("shares-refused", Message::SharesReply { id: 10, result: Err("no service x".into()) }),
        ("placement-show", Message::PlacementRequest { id: 11, ask: PlacementAsk::Show }),
        ("placement-drain", Message::PlacementRequest { id: 11, ask: PlacementAsk::Drain(true) }),
        ("placement-pin", Message::PlacementRequest { id: 11, ask: pin() }),
        ("placement-reply", Message::PlacementReply { id: 11, result: Ok(Box::new(placement())) }),
        ("placement-refused", Message::PlacementReply { id: 11, result: Err("no service x".into()) }),
        ("status-request", Message::StatusRequest { id: 8 }),
        ("status", Message::Status { id: 8, status: Box::new(status()) }),
        ("status-totals", Message::Status { id: 8, status: Box::new(totalled()) }),
        ("status-unreached", Message::Status { id: 8, status: Box::new(unreached()) }),
        ("status-streams", Message::Status { id: 8, status: Box::new(streaming()) }),
        ("status-process", Message::Status { id: 8, status: Box::new(of_a_process()) }),
        ("call-reduce-params", Message::Call(Box::new(Call { params: Some(apart.clone()), ..call() }))),
        ("request-reduce-params", Message::Request(Box::new(Request { params: apart, ..request_plain }))),
        ("call-announced", Message::Call(Box::new(Call { push, ..call() }))),
        ("request-announced", Message::Request(Box::new(request_announced))),
    ];
    messages.extend(pushes().map(|(name, message)| (name, Message::Push(Box::new(message)))));
    messages
}

fn pushes() -> [(&'static str, PushMessage<Bytes>); 8] {
    let payload = Bytes::from_static(b"run");
    [
        ("push-attach", PushMessage::Attach { application: "words".into(), worker: 3 }),
        ("push-attached", PushMessage::Attached { result: Ok(1 << 20) }),
        ("push-refused", PushMessage::Attached { result: Err("shutting down".into()) }),
        ("push", PushMessage::Push { request: 7, sequence: 2, last: true, payload }),
        ("push-failed", PushMessage::Failed { request: 7, problem: "no disk".into() }),
        ("push-wanted", PushMessage::Wanted { request: 7, after: 1, again: true }),
        ("push-taken", PushMessage::Taken { request: 7, upto: 2 }),
        ("push-ended", PushMessage::Ended { request: 7 }),
    ]
}
