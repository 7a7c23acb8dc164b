//! Shares of real processes: set while nodes run, at one node and at all, and refused as a whole.

use crate::real::{NodeProcess, micro_cluster, run_args, wait_for_members};
use serde_json::{Value, json};

fn service<'a>(answer: &'a Value, node: usize, name: &str) -> &'a Value {
    let services = answer["nodes"][node]["services"].as_array().expect("services");
    services.iter().find(|service| service["service"] == name).expect("the node has it")
}

fn share_and_class(answer: &Value, node: usize, name: &str) -> (Value, Value) {
    let service = service(answer, node, name);
    (service["share"].clone(), service["class"].clone())
}

#[test]
fn shares_are_set_while_a_node_runs() {
    let node = NodeProcess::start(&["--serve", "micro:partitions=0/1", "--share", "micro=2:batch"]);
    let at = ["--at", &node.addr, "-o", "json"];
    let shown = run_args(&[&["shares", "show"][..], &at].concat()).json();
    assert_eq!(share_and_class(&shown, 0, "micro"), (json!(2.0), json!("batch")));
    assert_eq!(share_and_class(&shown, 0, "*"), (json!(1.0), json!("interactive")));

    let set = run_args(&[&["shares", "set", "micro=3"][..], &at].concat()).json();
    assert_eq!(share_and_class(&set, 0, "micro"), (json!(3.0), json!("batch")), "its class stays");
    let set = run_args(&[&["shares", "set", "micro=0.5:interactive"][..], &at].concat()).json();
    assert_eq!(share_and_class(&set, 0, "micro"), (json!(0.5), json!("interactive")));

    let unknown = run_args(&[&["shares", "set", "micro=7", "nothing=1"][..], &at].concat());
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("no service nothing; it has: micro, *"), "{}", unknown.stderr);
    let beyond = run_args(&[&["shares", "set", "micro=0"][..], &at].concat());
    assert_eq!(beyond.code, 2, "{}", beyond.stderr);

    let call = run_args(&["call", "micro/sum", "--at", &node.addr, "--params", "null", "-o", "json"]);
    assert_eq!(call.code, 0, "{}", call.stderr);
    let shown = run_args(&[&["shares", "show"][..], &at].concat()).json();
    assert_eq!(service(&shown, 0, "micro")["share"], 0.5, "the refused command has set nothing");
    assert!(service(&shown, 0, "micro")["jobs_done"].as_u64() > Some(0), "{shown}");
}

#[test]
fn shares_are_set_at_every_node_that_has_the_service() {
    let nodes = micro_cluster(2, 4);
    let other = NodeProcess::start(&["--serve", "echo:partitions=0/1", "--join", &nodes[0].addr]);
    wait_for_members(&nodes[0].addr, 3);
    let at = ["--at", &nodes[0].addr, "--all", "-o", "json"];
    let set = run_args(&[&["shares", "set", "micro=4", "echo=2"][..], &at].concat()).json();
    assert_eq!(set["nodes"].as_array().map(Vec::len), Some(3), "{set}");
    for (at, node) in set["nodes"].as_array().expect("nodes").iter().enumerate() {
        let (name, share) = if node["node"] == json!(other.addr) { ("echo", 2.0) } else { ("micro", 4.0) };
        assert_eq!(service(&set, at, name)["share"], share, "{node}");
    }
    let unknown = run_args(&[&["shares", "set", "micro=9", "nothing=1"][..], &at].concat());
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    let shown = run_args(&[&["shares", "show"][..], &at].concat()).json();
    assert_eq!(shown.to_string().matches("\"share\":4.0").count(), 2, "nothing was set: {shown}");
}
