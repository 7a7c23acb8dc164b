//! A cluster with certificates, made, used and rotated by the command.

use crate::real::{Ended, NodeProcess, run_args, treefold, wait_until};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder of keys.
struct Keys {
    dir: tempfile::TempDir,
}

impl Keys {
    /// A folder with the authority of the cluster `prod`.
    fn new() -> Self {
        let keys = Self { dir: tempfile::tempdir().unwrap() };
        assert_eq!(keys.run(&["init", "--cluster", "prod"]).code, 0);
        keys
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("keys").join(format!("{name}.pem"))
    }

    fn run(&self, words: &[&str]) -> Ended {
        let dir = self.dir.path().join("keys");
        run_args(&[&["keys"], words, &["--dir", dir.to_str().unwrap()]].concat())
    }

    fn rotate(&self, words: &[&str]) {
        let rotated = self.run(&[&["rotate"], words].concat());
        assert_eq!(rotated.code, 0, "{}", rotated.stderr);
    }

    /// A folder with the same files.
    fn copy(&self) -> Self {
        let copy = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(copy.dir.path().join("keys")).unwrap();
        for name in ["authority", "n1", "web", "lost"] {
            std::fs::copy(self.path(name), copy.path(name)).unwrap();
        }
        copy
    }

    fn issue(&self, words: &[&str]) {
        let issued = self.run(&[&["issue"], words].concat());
        assert_eq!(issued.code, 0, "{}", issued.stderr);
    }
}

/// Calls `micro/sum` with these keys. Returns the exit code and standard error.
fn call(node: &NodeProcess, keys: Option<&Path>) -> (Option<i32>, String) {
    let mut command = treefold();
    command.args(["call", "micro/sum", "--at", &node.addr]).env_remove("TREEFOLD_KEYS");
    if let Some(keys) = keys {
        command.env("TREEFOLD_KEYS", keys);
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn keys_decide_who_may_call() {
    let keys = Keys::new();
    keys.issue(&["node", "n1", "--at", "127.0.0.1"]);
    keys.issue(&["client", "web", "--services", "micro"]);
    keys.issue(&["client", "reader", "--may", "read"]);
    let mode = std::fs::metadata(keys.path("n1")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the file has a private key");
    let node =
        NodeProcess::start(&["--keys", keys.path("n1").to_str().unwrap(), "--serve", "micro:partitions=0/1"]);
    assert_eq!(call(&node, Some(&keys.path("web"))), (Some(0), String::new()));
    let (code, error) = call(&node, Some(&keys.path("reader")));
    assert_eq!(code, Some(2));
    assert!(
        error.contains("the certificate does not give the right to call for the service \"micro\""),
        "{error}"
    );
    let (code, error) = call(&node, None);
    assert_eq!(code, Some(5));
    assert!(error.contains("only one side encrypts connections"), "{error}");
}

#[test]
fn a_rotation_reaches_running_nodes() {
    let keys = Keys::new();
    keys.issue(&["node", "n1", "--at", "127.0.0.1"]);
    keys.issue(&["client", "web"]);
    keys.issue(&["client", "lost"]);
    let lost = keys.dir.path().join("lost.pem");
    std::fs::copy(keys.path("lost"), &lost).unwrap();
    let node =
        NodeProcess::start(&["--keys", keys.path("n1").to_str().unwrap(), "--serve", "micro:partitions=0/1"]);
    assert_eq!(keys.run(&["rotate", "--finish"]).code, 2, "no rotation has begun");
    keys.rotate(&[]);
    for name in ["web", "lost"] {
        assert_eq!(call(&node, Some(&keys.path(name))).0, Some(0), "a new file, before the node has its own");
    }
    assert_eq!(call(&node, Some(&lost)).0, Some(0), "the old authority is trusted until the end");
    // The files of a further folder are one step ahead, and show whether the node has read its new file.
    let ahead = keys.copy();
    ahead.rotate(&["--finish"]);
    wait_until("the node has its new file", || call(&node, Some(&ahead.path("web"))).0 == Some(0));
    keys.rotate(&["--finish"]);
    assert_eq!(call(&node, Some(&keys.path("web"))).0, Some(0));
    wait_until("the old authority is forgotten", || call(&node, Some(&lost)).0 == Some(5));
    assert_eq!(call(&node, Some(&keys.path("web"))).0, Some(0));
    let shown = keys.run(&["show", "-o", "json"]).json();
    assert_eq!(shown["authority"]["rotating"], false);
    assert_eq!(shown["files"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_rotation_that_fails_leaves_everything_as_it_was() {
    let keys = Keys::new();
    keys.issue(&["client", "web"]);
    let before = std::fs::read(keys.path("web")).unwrap();
    std::fs::write(keys.path("zero"), "not a file of keys").unwrap();
    assert_eq!(keys.run(&["rotate"]).code, 1);
    assert_eq!(std::fs::read(keys.path("web")).unwrap(), before);
    std::fs::remove_file(keys.path("zero")).unwrap();
    assert_eq!(keys.run(&["show", "-o", "json"]).json()["authority"]["rotating"], false);
    keys.rotate(&[]);
}

#[test]
fn useless_keys_are_refused() {
    let keys = Keys::new();
    for (words, problem) in [
        (&["init"][..], "is there already"),
        (&["issue", "node", "n1"], "a node needs the addresses"),
        (&["issue", "client", "c", "--may", "join"], "a client can't have the right to join"),
        (&["issue", "client", "c", "--may", "fly"], "may is fly; allowed: call,stream"),
        (&["issue", "node", "n1", "--at", "host"], "at is host; allowed: an address"),
        (&["issue", "client", "authority"], "name is authority"),
        (&["issue", "client", "../c"], "name is ../c"),
        (&["issue", "client", "c", "--days", "3651"], "days is 3651"),
        (&["renew"], "has no files of processes"),
    ] {
        let refused = keys.run(words);
        assert_eq!(refused.code, 2, "{words:?}");
        assert!(refused.stderr.contains(problem), "{words:?}: {}", refused.stderr);
    }
}
