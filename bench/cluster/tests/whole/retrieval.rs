//! Trees under load over a real search: the command compares every answer with that of a loop over the partitions,
//! and fails if one is wrong.

use crate::real::run;

/// Text that every work tree has: the manual.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// Settings under which a run is short, and all calls can be answered.
const SHORT: &str = "--nodes 5 --queries 20 --node-rate 200 --rate 10 --seconds 1 --warm-up 0.2";

#[test]
fn shapes_are_compared_over_a_real_search() {
    let data = tempfile::tempdir().unwrap();
    let log = data.path().join("log.txt");
    let line = |shapes: &str, rest: &str| {
        let (data, log) = (data.path().display(), log.display());
        run(&format!("retrieval {FOLDER} --data {data}/index --log {log} --shape {shapes} {SHORT} {rest}"))
    };
    let ended = line("base,adaptive", "-o json");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let results = ended.json();
    let work = &results["work"];
    assert_eq!((&work["queries"], &work["stretched_local_ms"]), (&20.into(), &10.0.into()), "{work}");
    for figure in ["words_mean", "local_ms", "reduce_ms", "factor", "stretched_reduce_ms", "ideal_per_s"] {
        assert!(work[figure].as_f64() > Some(0.0), "{figure} of {work}");
    }
    assert!(work["slowest_partition"].as_f64() >= Some(1.0), "{work}");
    let points = results["points"].as_array().unwrap();
    let series: Vec<&str> = points.iter().map(|p| p["series"].as_str().unwrap()).collect();
    assert_eq!(series, ["base", "adaptive"]);
    for point in points {
        assert!(point["calls"].as_u64() > Some(0), "{point}");
        assert_eq!((&point["answered"], &point["coverage_mean"]), (&point["calls"], &1.0.into()), "{point}");
        assert_eq!((&point["nodes"], &point["processors"]), (&5.into(), &10.into()), "{point}");
    }
    assert_eq!(points[0]["calls"], points[1]["calls"], "shapes are compared on the same arrivals");

    // The same log and index serve a cluster of unequal nodes, which has other partitions of them.
    let made = std::fs::read_to_string(&log).unwrap();
    let ended = line("adaptive", "--heterogeneous --csv");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "a header and a point: {lines:?}");
    let at = lines[0].split(',').position(|name| name == "processors").unwrap();
    assert_eq!(lines[1].split(',').nth(at), Some("18"), "one node of two and four of four");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), made);
}

#[test]
fn folders_and_combinations_that_cannot_work_are_refused() {
    let refused = run(&format!("retrieval {FOLDER} --nodes 4 --heterogeneous"));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("can't be heterogeneous"), "{}", refused.stderr);
    let data = tempfile::tempdir().unwrap();
    let absent = run(&format!("retrieval {0}/absent --data {0}/index {SHORT}", data.path().display()));
    assert_eq!(absent.code, 1);
    assert!(absent.stderr.contains("absent"), "{}", absent.stderr);
}
