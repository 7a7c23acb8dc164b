//! Tests of stretched work on the real clock, with factors that keep them short.

use super::*;
use crate::spin::Spin;
use crate::work::Work;
use crate::{Folded, Hold};
use proptest::prelude::*;
use treefold_operators::{erase, erase_async};

fn partition(id: u32) -> Partition {
    Partition::new("micro".into(), id, 8, Arc::new(()))
}

fn one(operator: Arc<dyn Operator>, processors: u32) -> Arc<dyn Operator> {
    stretched([("one", operator)], processors).remove(0).1
}

/// Parameters of a stretched [`Spin`] that takes a real millisecond for a local, and a tenth of it for a reduce.
fn asked(factor: f64) -> Bytes {
    let work = Work { local_ms: 1.0, reduce_ms: 0.1, ..Work::default() };
    Stretch::new(factor, &work).unwrap().encode().unwrap()
}

async fn ended(outcome: Outcome) -> Answer {
    let Outcome::Later(pending) = outcome else { panic!("it takes time: {outcome:?}") };
    Answer::decode(&pending.await.unwrap()).unwrap()
}

#[tokio::test]
async fn answer_is_the_other_aggregations_and_costs_its_processor_time_times_the_factor() {
    let (node, params) = (one(erase(Spin), 2), asked(3.0));
    let a = ended(node.local(&partition(3), &params)).await;
    let b = ended(node.local(&partition(4), &params)).await;
    let folded = node.reduce(a.encode().unwrap(), b.encode().unwrap(), &params);
    let folded = ended(folded).await;
    assert_eq!((folded.locals, folded.reduces), (2, 1));
    assert_eq!(folded.local_ns, a.local_ns + b.local_ns);
    // A spin ends at the first reading of the clock after its time.
    assert!(folded.local_ns >= 6_000_000, "{folded:?}");
    assert!(folded.reduce_ns >= 300_000, "{folded:?}");
    assert!(folded.late_ns >= 2_000_000, "the real runs are part of the error: {folded:?}");

    let finished = node.finish(folded.encode().unwrap(), &params).unwrap();
    let finished = Answer::decode(&finished).unwrap();
    let sum = Folded::decode(&finished.body).unwrap();
    assert_eq!((sum.sum, sum.partitions), (7, 2));
}

#[tokio::test]
async fn locals_cost_is_kept_for_the_next_call_and_scaled_by_its_factor() {
    let node = one(erase(Spin), 1);
    let first = ended(node.local(&partition(3), &asked(2.0))).await;
    let again = ended(node.local(&partition(3), &asked(2.0))).await;
    let twice = ended(node.local(&partition(3), &asked(4.0))).await;
    assert_eq!(first.local_ns, again.local_ns);
    assert!(twice.local_ns.abs_diff(2 * first.local_ns) <= 2, "{} and {}", twice.local_ns, first.local_ns);
}

#[tokio::test]
async fn one_nodes_aggregations_share_its_processors() {
    let nodes = stretched([("a", erase(Spin)), ("b", erase(Spin))], 1);
    let names: Vec<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["stretched-a", "stretched-b"]);
    let since = Instant::now();
    let a = nodes[0].1.local(&partition(1), &asked(10.0));
    // Blocks until the first has ended, because there is one processor.
    let b = nodes[1].1.local(&partition(1), &asked(10.0));
    let (a, b) = tokio::join!(ended(a), ended(b));
    assert!(since.elapsed() >= Duration::from_nanos(a.local_ns + b.local_ns));
}

#[test]
fn aggregations_that_wait_are_refused() {
    let node = one(erase_async(Hold), 1);
    let refused = node.local(&partition(1), &asked(1.0)).now().unwrap().unwrap_err().to_string();
    assert!(refused.starts_with("an aggregation that waits can't be stretched"), "{refused}");
}

#[test]
fn unreadable_input_is_refused_and_its_side_blamed() {
    let (node, text) = (one(erase(Spin), 1), "text".to_string().encode().unwrap());
    let refused = node.local(&partition(1), &text).now().unwrap().unwrap_err();
    assert!(refused.is_of_params(), "{refused}");
    let fine = Answer::default().encode().unwrap();
    let refused = node.reduce(fine, text, &asked(1.0)).now().unwrap().unwrap_err();
    assert_eq!(refused.faulty_partial(), Some(1), "{refused}");
    let failing = Work { fail: vec![1], ..Work::default() };
    let failing = Stretch::new(1.0, &failing).unwrap().encode().unwrap();
    let failed = node.local(&partition(1), &failing).now().unwrap().unwrap_err().to_string();
    assert_eq!(failed, "partition 1 was asked to fail", "the other aggregation's error");
}

#[test]
fn duration_is_limited() {
    let longest = stretched_by(crate::stretch::FACTOR_MAX, Duration::from_secs(60));
    assert_eq!(longest, Duration::from_secs(60));
}

fn answers() -> impl Strategy<Value = Answer> {
    let time = 0..u64::MAX / 4;
    (0u32..1000, 0u32..1000, time.clone(), time.clone(), time).prop_map(
        |(locals, reduces, local_ns, reduce_ns, late_ns)| Answer {
            body: Bytes::new(),
            locals,
            reduces,
            local_ns,
            reduce_ns,
            late_ns,
        },
    )
}

proptest! {
    #[test]
    fn figures_of_any_tree_are_the_same(a in answers(), b in answers(), c in answers()) {
        let merged = |a: &Answer, b: &Answer| a.merged(b).unwrap();
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&a, &Answer::default()), a);
    }
}
