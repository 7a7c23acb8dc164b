//! Plays scenarios that once broke an invariant. They were shrunk and kept as JSON, so changes of the
//! generator do not affect them.
//!
//! `treefold sim explore --from crates/sim/testdata/NAME.json` plays one by hand.

use treefold_sim::explore::draw::draw;
use treefold_sim::explore::{Scenario, play};
use treefold_sim::world::Sabotage;

/// The kept scenarios: the file's name, and the error that it found.
const KEPT: [(&str, &str); 60] = [
    (
        "journal_without_a_durable_record",
        "the simulated journal forgot its last durable record, and the process died before a later one was durable",
    ),
    (
        "snapshot_that_takes_longer",
        "a mirror asked for ever for a snapshot that took longer than the time that it gave for it",
    ),
    (
        "feed_without_mirrors",
        "an origin that saw no mirror began one epoch after the other, and the explorer expected it to run",
    ),
    ("poll_past_deadline", "a front polled replicas for longer than the call's deadline"),
    ("stale_fold", "a fold queued in a former life of its wave ran after the wave was taken up again"),
    (
        "offer_that_made_room",
        "an offered answer was dropped to keep within limits, and its parent went on waiting",
    ),
    ("patience_without_end", "with a patience of zero, a late child was repaired endlessly at one instant"),
    (
        "heirs_in_turns",
        "two roots that were both gone were promoted in turn, as fast as connections were refused",
    ),
    ("two_alone", "two nodes that held each other for dead, without seeds, never met again"),
    ("two_alone_without_seeds", "the same, if the node that each lost last is gone for good"),
    ("more_losses_than_listed", "a node listed all losses instead of at most missing_max"),
    (
        "less_asked_than_came",
        "a wave that was asked for less than it held ended its wait too early, or panicked",
    ),
    ("leaver_asks_children", "a drained node took up an old wave and asked children"),
    (
        "cancel_before_call",
        "when modelled links became faster, a cancellation overtook its call on a connection",
    ),
    ("dropped_future", "a dropped future in the model kept its processor"),
    ("book_that_is_never_empty", "a worker kept an entry for a request of a node that was gone, for ever"),
    ("early_fills_the_room", "early pushes filled the room, and therefore their announcement was refused"),
    (
        "early_blocks_what_is_open",
        "a large push that no node had asked for kept a worker from pushing for open requests",
    ),
    (
        "one_loss_beyond_missing_max",
        "with missing_max at 0, the parent dropped the one loss that a child always lists, and the packet with it",
    ),
    (
        "seated_twice_while_opening",
        "a node below a child that had not answered yet got a second seat, and was moved to and fro for ever",
    ),
    (
        "window_smaller_than_its_time_out",
        "the explorer expected all endpoints in the waves of a stream whose window is too small for its time-out",
    ),
    (
        "let_go_and_asked_again",
        "a parent asked a child again after releasing it, and the child assumed that the parent had what was sent",
    ),
    (
        "left_and_came_back_unnoticed",
        "packets down never reached a child that had left and come back unnoticed",
    ),
    (
        "own_part_waits_for_room",
        "a caller held all the room that its node's own part of the wave needed, and waited for that part",
    ),
    (
        "answered_by_a_former_life",
        "a restarted process got a packet that its former life had answered, when that life was above its new parent",
    ),
    (
        "moved_while_its_packet_climbed",
        "a wave waited for ever if it held a packet of an endpoint that had moved in the meantime",
    ),
    ("offers_where_nothing_is_kept", "the explorer expected an offered answer of a node that keeps none"),
    (
        "filtered_after_it_moved",
        "a packet in an old parent's filter overtook earlier packets of its endpoint, which were lost",
    ),
    (
        "came_after_packets_were_taken",
        "a wave waited for ever for an endpoint that had joined too late to get the packet it answers",
    ),
    (
        "attempt_that_fails_late",
        "the simulated world reported a peer lost when an old connection attempt timed out, although a later one had succeeded",
    ),
    (
        "durable_in_a_later_epoch",
        "a simulated origin took the durable position of a later epoch for its own, and sent an event that its journal had lost",
    ),
    (
        "message_overtaken_when_room_came",
        "in the model, a message for a reader overtook earlier ones when its window got room",
    ),
    (
        "values_that_no_copy_acknowledged",
        "the explorer expected the last values of sources whose events no mirror was there to acknowledge",
    ),
    (
        "learned_before_it_moved",
        "a simulated source that moved to an origin was not told what was acknowledged there already",
    ),
    (
        "cancel_lost_with_a_restarted_node",
        "the explorer expected a cancellation to arrive although it had restarted the node that sent it",
    ),
    (
        "client_that_lost_its_last_member",
        "the simulated client did not contact its seeds again when its last member left while its links were cut",
    ),
    (
        "beginner_ahead_of_the_others",
        "endpoints skipped the waves before one that an endpoint with a later first tag had opened, and these waited for ever",
    ),
    (
        "packets_of_a_former_place",
        "a new endpoint got packets that waited in its node's filter since before, and that its former life had answered",
    ),
    (
        "between_two_epochs",
        "a mirror that had missed an epoch, and not yet all of its events again, began anew in the one after the next",
    ),
    (
        "alone_until_a_lease_ends",
        "an origin did not notice without an event that a mirror's lease had ended, so the others never got its log",
    ),
    (
        "packet_that_was_not_kept",
        "a mirror that waited for a snapshot forgot that it had not kept a large packet, and took an older snapshot for current",
    ),
    (
        "missed_while_it_was_away",
        "a node got another parent after a split, kept its life, and missed without knowing a packet that nobody kept for it",
    ),
    (
        "replaced_by_a_held_event",
        "a new origin sent an event again that a held one had replaced, behind a newer event of its key",
    ),
    (
        "beginners_under_a_new_parent",
        "packets passed over a node, and its next parent did not learn with which tag its endpoints had begun anew",
    ),
    (
        "missed_while_it_joined",
        "a mirror forgot that packets had passed over it while it waited for a snapshot, and took an older one for current",
    ),
    (
        "leaver_in_an_earlier_wave",
        "the explorer compared later waves with one as large, of which an endpoint had left since",
    ),
    (
        "answer_that_crossed_a_later_ask",
        "a node took the answer to an earlier ask for that to a later one, and neither waited for the later one nor cancelled it",
    ),
    (
        "held_under_former_rules",
        "a new origin with other rules sent an event again that a held one had replaced, behind a newer event of its key",
    ),
    (
        "twin_at_the_time_of_a_piece",
        "the explorer started a worker's program again at the time of a piece, and let it push the pieces without that one",
    ),
    (
        "answered_elsewhere_meanwhile",
        "an endpoint whose node came back got packets that the endpoint had answered at another node meanwhile",
    ),
    (
        "given_to_a_node_below",
        "an endpoint went to a node below its own; its former node kept it open too, and both answered a packet",
    ),
    (
        "settled_before_it_moved",
        "a packet that was settled before its endpoint moved below another child filled the window there for ever",
    ),
    (
        "packet_after_a_break_that_the_parent_has_not_noticed",
        "an endpoint's node took a packet of its parent after their connection broke, and missed the one that broke with it",
    ),
    (
        "retry_in_the_branch_of_a_hedge",
        "a node of a tree of replicas retried a partition at the tree's head, in the branch of the tree",
    ),
    (
        "hedge_that_tore_a_partial",
        "a hedge gave one of two partitions, and the partial with both, which came later, was dropped",
    ),
    (
        "parent_that_hardly_ran",
        "a parent that was stopped while none of its timers was due blamed its children for the time",
    ),
    ("go_between_that_was_blamed", "a go-between was held for slow because the node behind it was"),
    (
        "busy_node_that_was_blamed",
        "a node with a long queue was held for slow because a replica was done sooner",
    ),
    (
        "told_alone_by_a_deposed_root",
        "a promoted root that the former root asked for itself alone never told its children that the call was cancelled",
    ),
    (
        "front_end_without_a_connection",
        "an observer that had lost its last connection, and knew a dead member that it was never connected to, stayed alone",
    ),
];

/// Drawn scenarios that every run of the tests plays.
const SEEDS: u64 = 300;
/// Most steps of a kept scenario. All of them are small, so more steps mean a temporary loop.
const STEPS_MAX: u64 = 20_000;

fn kept(name: &str) -> Scenario {
    let path = format!("{}/testdata/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Scenario::from_json(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn kept_scenarios_no_longer_break_an_invariant() {
    for (name, found) in KEPT {
        let played = play(&kept(name), None, None);
        assert_eq!(played.violation, None, "{name}: {found}");
        assert!(played.steps < STEPS_MAX, "{name}: {found}; {} steps", played.steps);
    }
}

/// In a chain of 38 nodes whose windows hold two packets, each wave waits at every level until it times out there, and a
/// node sends a wave when an earlier one is settled. The explorer once waited for one climb only.
#[test]
fn waves_may_climb_one_after_the_other_if_windows_hold_few() {
    let scenario = kept("long/waves_that_climb_in_turn");
    let one_climb_us = scenario.streams[0].climbs_for_us(&scenario);
    let played = play(&scenario, None, None);
    assert_eq!(played.violation, None);
    assert!(played.simulated.as_micros() > 2 * one_climb_us, "took {:?}", played.simulated);
}

/// An endpoint that lagged and was then lost stayed away for ever, because it was expected to come back by itself.
#[test]
fn laggard_that_fell_silent_is_brought_back() {
    let played = play(&kept("long/laggard_that_fell_silent"), None, None);
    assert_eq!(played.violation, None);
}

/// An endpoint's node took the word of its parent, after their connection had broken, that packets had passed over it, and missed
/// those that broke with the connection without knowing.
#[test]
fn word_of_missed_packets_is_not_taken_after_a_break_that_the_parent_has_not_noticed() {
    let played = play(&kept("long/missed_after_a_break_that_the_parent_has_not_noticed"), None, None);
    assert_eq!(played.violation, None);
}

#[test]
fn every_kept_scenario_is_in_the_table() {
    let directory = format!("{}/testdata", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> =
        files.filter_map(|name| Some(name.to_str()?.strip_suffix(".json")?.to_owned())).collect();
    names.sort();
    let mut table = KEPT.map(|(name, _)| name);
    table.sort_unstable();
    assert_eq!(names, table);
}

#[test]
fn a_seed_gives_the_same_run_every_time() {
    for seed in [3, 17, 178] {
        let (one, other) = (play(&draw(seed), None, None), play(&draw(seed), None, None));
        assert_eq!(one.trace_hash, other.trace_hash, "treefold sim explore --scenario {seed}");
        assert_eq!((one.steps, one.violation), (other.steps, None), "treefold sim explore --scenario {seed}");
    }
}

/// Plays calls, streams, pushes and relays in the same run, all with faults. `treefold sim explore` plays
/// many more scenarios.
#[test]
fn drawn_scenarios_break_no_invariant() {
    for seed in 1..=SEEDS {
        let played = play(&draw(seed), None, None);
        assert_eq!(played.violation, None, "treefold sim explore --scenario {seed}");
    }
}

#[test]
fn sabotage_is_found() {
    for (sabotage, invariant) in [
        (Sabotage::CountTwice, "counted_once"),
        (Sabotage::DropCancel, "leaves_nothing"),
        (Sabotage::StreamCountTwice, "stream_counted_once"),
        (Sabotage::StreamMixWaves, "stream_counted_once"),
        (Sabotage::StreamDropPacket, "stream_nothing_lost"),
        (Sabotage::StreamDropMissed, "stream_down"),
        (Sabotage::PlacementLoadNothing, "converges"),
        (Sabotage::MirrorCountJoining, "mirror_acknowledged"),
        (Sabotage::MirrorSendEarly, "mirror_state"),
        (Sabotage::MirrorRecoverAnew, "mirror_checkpoints"),
        (Sabotage::MirrorSnapshotAhead, "mirror_state"),
        (Sabotage::MirrorResumeSkips, "mirror_readers"),
    ] {
        // A feed stands on streams, so its invariants may break first where a stream loses a packet.
        let has_feed = invariant.starts_with("mirror_");
        let scenarios =
            (1..=500).map(draw).map(|one| Scenario { feed: one.feed.filter(|_| has_feed), ..one });
        let broken =
            scenarios.map(|one| play(&one, Some(sabotage), None)).find_map(|played| played.violation);
        assert_eq!(broken.map(|violation| violation.invariant).as_deref(), Some(invariant), "{sabotage:?}");
    }
}

#[test]
fn dropping_the_last_copy_of_a_partition_is_found() {
    let is_calm = |scenario: &Scenario| {
        let calm = scenario.faults.iter().all(|planned| !planned.fault.is_trouble());
        scenario.placing.is_some() && calm && !scenario.weather.is_trouble()
    };
    let sabotage = Some(Sabotage::PlacementLoadNothing);
    let played = (1..=2_000).map(draw).filter(is_calm).map(|one| play(&one, sabotage, None));
    let mut broken = played.filter_map(|played| played.violation);
    assert!(broken.any(|violation| violation.invariant == "placement_covers"));
}

#[test]
fn drawn_feeds_mirror_events() {
    let scenario =
        (1..).map(draw).find(|scenario| scenario.feed.is_some()).expect("every third scenario has a feed");
    let played = play(&scenario, None, None);
    assert_eq!(played.violation, None);
    assert!(played.mirrored > 0, "{played:?}");
}

#[test]
fn drawn_streams_open_and_give_waves() {
    let scenario = (1..)
        .map(draw)
        .find(|scenario| !scenario.streams.is_empty())
        .expect("every other scenario has streams");
    let played = play(&scenario, None, None);
    assert_eq!(played.violation, None);
    assert!(played.streams > 0 && played.stream_waves > 0, "{played:?}");
}

#[test]
fn a_push_counted_twice_is_found() {
    // With one partition, calls have nothing to fold, so every fold is of pushes.
    let scenarios = (1..=500).map(draw).filter(|scenario| scenario.pushing.is_some());
    let broken = scenarios
        .map(|scenario| Scenario { partitions: 1, calls: Vec::new(), ..scenario })
        .find_map(|scenario| play(&scenario, Some(Sabotage::CountTwice), None).violation);
    assert_eq!(broken.map(|violation| violation.invariant).as_deref(), Some("counted_once"));
}

#[test]
fn pushes_reach_nodes_and_are_announced() {
    let scenario = (1..)
        .map(draw)
        .find(|scenario| scenario.pushing.is_some())
        .expect("one in three scenarios has push waves");
    let calls = scenario.calls.len() as u64;
    let played = play(&scenario, None, None);
    assert_eq!(played.violation, None);
    assert!(played.pushes > 0 && played.calls > calls, "{played:?}");
}
