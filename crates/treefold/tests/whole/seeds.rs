//! Seeds and settings of nodes that programs start: texts that lead to members, and values that are refused.

use std::time::Duration;
use treefold::{Client, ClusterOptions, Error, Limits, Node, StartError, Tuning};

#[tokio::test]
async fn nodes_and_clients_find_members_by_names_and_files() {
    let first = Node::builder().start().await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{} # the first\n", first.addr())).unwrap();
    let by_file = format!("@{}", file.path().display());
    let by_name = format!("dns:localhost:{}", first.addr().port());
    for seed in [&by_file, &by_name] {
        let node = Node::builder().join([seed]).start().await.unwrap();
        assert!(node.sees(first.id(), Duration::from_secs(10)).await, "{seed}");
        for direct in [false, true] {
            let client = Client::builder().at([seed]).direct(direct).connect().await.unwrap();
            client.status().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_node_is_found_at_an_address_that_its_file_gets_later() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let node = Node::builder().join([format!("@{}", file.path().display())]).start().await.unwrap();
    let stray = Node::builder().start().await.unwrap();
    std::fs::write(file.path(), stray.addr().to_string()).unwrap();
    assert!(node.sees(stray.id(), Duration::from_secs(20)).await);
}

#[tokio::test]
async fn names_without_addresses_fail_for_clients_and_not_for_nodes() {
    let node = Node::builder().join(["dns:nothing.invalid:7700"]).start().await.unwrap();
    assert!(node.is_running());
    let refused = Client::builder().at(["@/no/such/file"]).connect().await.unwrap_err();
    assert!(matches!(&refused, Error::Connect { addr, .. } if addr == "@/no/such/file"), "{refused}");
}

#[tokio::test]
async fn texts_that_can_never_lead_to_a_node_are_refused() {
    for seed in ["dns:name", "@", "127.0.0.1", "dns:_tree.name"] {
        let refused = Node::builder().join([seed]).start().await.map(drop).unwrap_err();
        assert!(matches!(&refused, StartError::Seed { given, .. } if given == seed), "{refused}");
    }
}

#[tokio::test]
async fn limits_and_tuning_outside_their_bounds_are_refused() {
    let limits = || Limits { payload_bytes_max: 0, ..Limits::DEFAULT };
    let cluster = || ClusterOptions::new("treefold").limits(limits());
    let refused = Node::builder().cluster(cluster()).start().await.map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "limits.payload_bytes_max is 0B; allowed: 1KiB to 4GiB");
    let refused = Client::builder().at(["127.0.0.1:1"]).cluster(cluster()).connect().await.unwrap_err();
    assert!(matches!(&refused, Error::Start(StartError::Setting(_))), "{refused}");
    let tuning = Tuning { tries_max: 0, ..Tuning::LAN };
    let refused = Node::builder().tuning(tuning).start().await.map(drop).unwrap_err();
    assert!(matches!(&refused, StartError::Setting(setting) if setting.field == "tries_max"), "{refused}");
}
