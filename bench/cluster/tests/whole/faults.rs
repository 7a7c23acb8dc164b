//! Answers and waves under random faults, and behind a front-end that does not read.

use crate::real::run;
use serde_json::json;

#[test]
fn no_answer_is_wrong_under_random_faults_and_the_cluster_heals() {
    for replicas in [1, 2] {
        let ended = run(&format!("faults --calls 60 --replicas {replicas} -o json"));
        // The output has the misbehaving calls and the seed of the faults.
        assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
        let figures = ended.json();
        assert_eq!((&figures["calls"], &figures["wrong"]), (&json!(60), &json!(0)), "{figures}");
        assert_eq!(figures["coverage_at_rest_after"], json!(1.0), "{figures}");
        let ends = ["full", "partial", "empty"].map(|end| figures[end].as_u64().unwrap());
        assert_eq!(ends.iter().sum::<u64>(), 60, "{figures}");
    }
}

#[test]
fn every_wave_under_random_faults_is_the_sum_over_its_own_contributors() {
    for mode in ["wait-for-all", "time-out:50", "do-not-wait"] {
        let ended = run(&format!("stream-faults --backends 5 --waves 300 --rate 100 --mode {mode} -o json"));
        assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
        let figures = ended.json();
        assert_eq!((&figures["waves"], &figures["wrong"]), (&json!(300), &json!(0)), "{figures}");
        assert_eq!(
            figures["full"].as_u64().unwrap() + figures["partial"].as_u64().unwrap(),
            300,
            "{figures}"
        );
    }
}

#[test]
fn more_replicas_than_nodes_are_refused() {
    let ended = run("faults --nodes 4 --replicas 5");
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("at most as many replicas as nodes"), "{}", ended.stderr);
}

#[test]
fn front_end_that_does_not_read_blocks_senders_and_loses_nothing() {
    let ended = run("stream-stall --backends 3 --shape kary:2 --packet-bytes 20000 --seconds 1 -o json");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let figures = ended.json();
    // Windows of 1 MiB hold 52 such packets of each back-end, of the wave's nodes one and two levels deep.
    let waiting = figures["waves_waiting"].as_u64().expect("a number");
    assert!((1..=4 * 52).contains(&waiting), "{figures}");
    assert!(figures["waves_per_s_after"].as_f64() > Some(0.0), "{figures}");
}

#[test]
fn feed_loses_no_acknowledged_event_while_its_parts_are_killed() {
    let ended = run("mirror-faults --rounds 4 -o json");
    // The output has the problems and the seed of the faults.
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    let figures = ended.json();
    assert_eq!((&figures["rounds"], &figures["problems"]), (&json!(4), &json!([])), "{figures}");
    assert!(figures["seen"].as_u64() > Some(0), "{figures}");
}
