//! Replica policies under load on emulated processors: the command checks every answer itself, and fails if one is
//! wrong.

use crate::real::run;
use serde_json::Value;

#[test]
fn policies_are_compared_with_ideal_on_the_same_calls() {
    let ended = run(
        "polling --servers 4 --fronts 2 --workload fine-grain --policy random,polled:3,tower:peak_ewma,ideal \
                     --poll-timeout 60s,10ms --load 0.3 --seconds 1 --warm-up 0.3 --rounds 3 -o json",
    );
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let points = ended.json();
    let points = points.as_array().unwrap();
    let series: Vec<(&Value, &Value)> =
        points.iter().map(|point| (&point["series"], &point["poll_timeout_ms"])).collect();
    let (none, all, some) = (&Value::Null, &60_000.0.into(), &10.0.into());
    assert_eq!(
        series,
        [
            (&"random".into(), none),
            (&"polled:3".into(), all),
            (&"polled:3".into(), some),
            (&"tower:peak_ewma".into(), none),
            (&"ideal".into(), none)
        ]
    );
    for point in points {
        // A third of the servers' capacity, and a minute for each call: all are answered.
        assert!(point["calls"]["made"].as_u64() > Some(0), "{point}");
        assert_eq!((&point["calls"]["lost"], &point["rounds"]), (&0.into(), &3.into()), "{point}");
        assert_eq!(point["calls"]["made"], points[0]["calls"]["made"], "policies get the same arrivals");
        assert!(point["to_ideal"]["mean_low"].as_f64() <= point["to_ideal"]["mean_high"].as_f64(), "{point}");
    }
    assert_eq!(points[4]["to_ideal"]["mean"], 1.0);
}

#[test]
fn invalid_lists_are_refused_before_the_start() {
    let refused = run("polling --poll-timeout 1ms,2ms,3ms,4ms,5ms");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("give at most 4"), "{}", refused.stderr);
}
