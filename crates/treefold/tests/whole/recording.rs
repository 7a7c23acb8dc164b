//! Records a node in the middle of a working cluster, and replays the recording.

use crate::figures::{PATIENCE, Trick, Tricks, cluster, total};
use std::sync::Arc;
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::replay::{Happening, Recording, run};

#[tokio::test]
async fn replay_repeats_the_recorded_decisions() {
    let dir = tempfile::tempdir().unwrap();
    let file = move |node: usize| dir.path().join(format!("{node}.rec"));
    let paths: Vec<_> = (0..4).map(&file).collect();
    let recorded = paths.clone();
    let cluster = cluster(4, 2, &Arc::default())
        .configure(move |at, node| node.record(recorded[at].clone()))
        .start()
        .await
        .unwrap();
    let client = cluster.connect().await.unwrap();
    for _ in 0..20 {
        let reply = client.call::<Sum>("figures/sum", &()).deadline(PATIENCE).await.unwrap();
        assert_eq!(reply.value, Some(Sum(total(4))));
        client.call::<Sum>("figures/sum-inline", &()).deadline(PATIENCE).await.unwrap();
    }
    let panics = Tricks::at(1, Trick::Panic);
    client.call::<i64>("figures/tricky", &panics).min_coverage(0.0).deadline(PATIENCE).await.unwrap();
    cluster.kill(3);
    client.call::<Sum>("figures/sum", &()).deadline(PATIENCE).await.unwrap();
    let front = cluster.nodes()[0].id();
    drop(client);
    cluster.shutdown().await;

    for path in &paths[..3] {
        let summary = run(path, |_| {}).unwrap();
        assert_eq!(summary.is_faithful(), Some(true), "{summary:?}");
        assert!(summary.inputs > 20 && summary.effects > 20, "{summary:?}");
    }
    let killed = run(&paths[3], |_| {}).unwrap();
    assert_eq!(killed.recorded_hash, None, "a killed node does not close its recording");
    let recording = Recording::open(&paths[0]).unwrap();
    assert_eq!(recording.config().node(), front);
    let inputs = recording.filter(|entry| matches!(entry.as_ref().unwrap().what, Happening::Input(_)));
    assert!(inputs.count() > 20);
}

#[tokio::test]
async fn a_recording_can_be_read_while_its_node_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("running.rec");
    std::fs::write(&path, "an older recording").unwrap();
    let node = treefold::Node::builder().record(&path).start().await.unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "it has callers' data");
    }
    for _ in 0..10 {
        node.status().await.unwrap();
    }
    crate::figures::eventually("the inputs are in the file", || async {
        run(&path, |_| {}).is_ok_and(|summary| summary.inputs >= 10)
    })
    .await;
    node.shutdown(Duration::from_secs(5)).await;
    assert_eq!(run(&path, |_| {}).unwrap().is_faithful(), Some(true));
}
