//! An index in an object store: uploaded, served by real nodes with cold and warm copies, and with the store cut off.

use crate::real::{Ended, NodeProcess, ended, run_args, treefold, wait_until};
use serde_json::Value;
use tempfile::TempDir;
use treefold_bench_store::Store;

/// A store with the bucket `corpus`, and a folder of documents.
struct Bed {
    docs: TempDir,
    data: TempDir,
    store: Store,
    _buckets: TempDir,
}

impl Bed {
    fn new() -> Self {
        let (docs, data, buckets) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(buckets.path().join("corpus")).unwrap();
        for number in 0..40 {
            let text = format!("A page about heaps and trees, number {number}.");
            std::fs::write(docs.path().join(format!("{number}.txt")), text).unwrap();
        }
        let store = Store::start(buckets.path(), "127.0.0.1:0").unwrap();
        Self { docs, data, store, _buckets: buckets }
    }

    fn environment(&self) -> [(&'static str, String); 4] {
        self.store.environment()
    }

    fn upload(&self) -> Ended {
        let (docs, data) = (self.docs.path().to_string_lossy(), self.data.path().join("index"));
        let data = data.to_string_lossy();
        let line =
            ["index", &docs, "--partitions", "4", "--data", &data, "--to", "s3://corpus/docs", "-o", "json"];
        ended(treefold().args(line).envs(self.environment()))
    }

    /// Starts a node with copies in a directory of this name.
    fn node(&self, partitions: &str, name: &str, join: Option<&NodeProcess>) -> NodeProcess {
        let serve = self.serve(partitions, name);
        let environment = self.environment();
        let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut args = vec!["--serve", &serve, "--name", name];
        args.extend(join.iter().flat_map(|first| ["--join", &first.addr]));
        NodeProcess::start_with(&environment, &args)
    }

    fn serve(&self, partitions: &str, name: &str) -> String {
        let data = self.data.path().join(name);
        format!("search=s3://corpus/docs:partitions={partitions}:data={}", data.display())
    }
}

fn call(at: &str) -> Value {
    let line = ["call", "search/topk", "--params", r#"{"query":"heaps","k":50}"#, "--at", at, "-o", "json"];
    run_args(&[&line[..], &["--min-coverage", "0.1"]].concat()).json()
}

fn hits(at: &str) -> usize {
    call(at)["value"]["hits"].as_array().map_or(0, Vec::len)
}

/// True if the node has loaded its share of the partitions, so that its copies are complete. A directory of the cache is there
/// from the beginning of a copy.
fn has_its_share(node: &NodeProcess) -> bool {
    let report = run_args(&["placement", "node", &node.addr, "-o", "json"]).json();
    report["calm"] == true && report["services"][0]["held"] != ""
}

#[test]
fn nodes_share_an_index_in_a_store_and_start_again_without_the_store() {
    let bed = Bed::new();
    let first = bed.upload();
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(first.json()["uploaded"]["files"].as_u64().unwrap() > 8);
    let again = bed.upload().json();
    assert_eq!((&again["reused"], &again["uploaded"]["files"]), (&Value::from(true), &Value::from(0)));

    let placed = "auto/4:replicas=1";
    let one = bed.node(placed, "one", None);
    let mut two = bed.node(placed, "two", Some(&one));
    wait_until("both nodes answer from all partitions", || {
        hits(&one.addr) == 40 && has_its_share(&one) && has_its_share(&two)
    });
    // A node that starts anew takes its copies from the disk.
    bed.store.cut_off();
    assert_eq!(hits(&one.addr), 40);
    two.signal(libc::SIGKILL);
    two.wait();
    let sent = bed.store.sent();
    let _two = bed.node(placed, "two", Some(&one));
    wait_until("the copies are served without the store", || hits(&one.addr) == 40);
    assert_eq!(bed.store.sent(), sent);
}

#[test]
fn a_store_that_fails_is_a_loss_with_a_reason_until_it_is_back() {
    let bed = Bed::new();
    assert_eq!(bed.upload().code, 0);
    bed.store.cut_off();
    // By hand, a node can't start without its partitions.
    let refused = ended(
        treefold()
            .args(["node", "--listen", "127.0.0.1:0", "--serve", &bed.serve("0-3/4", "hand")])
            .envs(bed.environment()),
    );
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("s3://corpus/docs can't be reached"), "{}", refused.stderr);

    let node = bed.node("auto/4", "auto", None);
    let line = ["placement", "node", &node.addr, "-o", "json"];
    wait_until("the failed loads are reported with their reason", || {
        let report = run_args(&line).json();
        let failures = report["services"][0]["failures"].as_array().cloned().unwrap_or_default();
        failures.iter().any(|failure| failure["reason"].as_str().unwrap().contains("can't be reached"))
    });
    let lost = call(&node.addr);
    assert_eq!((&lost["value"], lost["missing"].as_array().map(Vec::len)), (&Value::Null, Some(4)), "{lost}");
    bed.store.come_back();
    wait_until("all partitions are loaded after the store is back", || hits(&node.addr) == 40);
}

#[test]
fn a_new_index_is_taken_by_new_nodes_and_another_total_is_refused() {
    let bed = Bed::new();
    assert_eq!(bed.upload().code, 0);
    let old = bed.node("0-3/4", "old", None);
    for number in 40..50 {
        std::fs::write(bed.docs.path().join(format!("{number}.txt")), "More about heaps.").unwrap();
    }
    assert_eq!(bed.upload().code, 0);
    assert_eq!(hits(&old.addr), 40);
    let new = bed.node("0-3/4", "new", None);
    assert_eq!(hits(&new.addr), 50);
    let refused = ended(
        treefold()
            .args(["node", "--listen", "127.0.0.1:0", "--serve", &bed.serve("0-7/8", "other")])
            .envs(bed.environment()),
    );
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("the index has 4 partitions, and not 8"), "{}", refused.stderr);
}
