//! Whether nodes accept this host: the cluster's name, its token or certificates, the protocol's version.

use super::finding::{Finding, capped};
use super::nodes::{Seen, count};
use crate::trust::{KEYS_VARIABLE, TOKEN_VARIABLE};
use treefold::Error;

const CHECK: &str = "greeting";

pub(super) fn check(seen: &[Seen], cluster: &str) -> Vec<Finding> {
    let answered = seen.iter().filter(|node| node.facts().is_some()).count();
    let refused = |node: &Seen| Some(refused(&node.name, node.answer.as_ref()?.as_ref().err()?, cluster));
    let mut findings = capped(seen.iter().filter_map(refused).collect());
    if answered > 0 {
        let found =
            format!("this host is accepted as a client of the cluster {cluster:?} by {}", count(answered));
        findings.insert(0, Finding::ok(CHECK, found));
    }
    findings
}

fn refused(name: &str, error: &Error, cluster: &str) -> Finding {
    let Error::Handshake { problem, .. } = error else {
        let advice = match error {
            Error::FrontSilent { .. } => {
                "the port may belong to another program; if it is the node, look at its load and its log"
            }
            _ => "look at the log of the node",
        };
        return Finding::fail(CHECK, format!("{name} does not answer as a node: {error}"), advice);
    };
    Finding::fail(CHECK, format!("{name} refuses this host: {problem}"), advice_on(problem, cluster))
}

/// The thing to do about a refused greeting.
fn advice_on(problem: &str, cluster: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| problem.contains(word));
    if has(&["expired", "not valid yet"]) {
        format!(
            "compare the clocks of both hosts, then renew the certificate (`treefold keys renew`); {KEYS_VARIABLE} names the file of \
             this host"
        )
    } else if has(&["another cluster", "cluster is", "of cluster", "other cluster"]) {
        format!(
            "give the name that the node has (its --cluster, or `cluster` in its file) with --cluster; {cluster:?} was asked for. If \
             the node is a stranger, correct the address"
        )
    } else if has(&["encrypt", "one side has a token"]) {
        format!(
            "give this host what the nodes have: a certificate ({KEYS_VARIABLE}), a token ({TOKEN_VARIABLE}), or neither"
        )
    } else if has(&["token", "seal"]) {
        format!("give the token of the cluster in {TOKEN_VARIABLE}, or a file with it in TREEFOLD_TOKEN_FILE")
    } else if has(&["certificate", "authority", "grant", "signature"]) {
        format!(
            "issue this host a certificate of the cluster's authority (`treefold keys issue`), and name its file in {KEYS_VARIABLE}; \
             `treefold keys show` tells what it allows"
        )
    } else if has(&["version"]) {
        "run a command of the node's release, or one that shares a protocol version with it (docs/upgrade.md)"
            .to_owned()
    } else if has(&["too many connections", "limit of"]) {
        "raise limits.peers_max of the node, or close clients".to_owned()
    } else {
        "look at the log of the node".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_own_advice() {
        let expect = [
            ("the other side reports: another cluster", "--cluster"),
            ("the other side reports: this side's certificate has expired", "clocks"),
            ("the other side reports: another token: seal", "TREEFOLD_TOKEN"),
            (
                "the other side encrypts the connection (with a token or a certificate), and this side does not",
                "neither",
            ),
            ("no authority that the other side trusts has signed this side's certificate", "keys issue"),
            ("the two sides have no version of the protocol in common: version, limit 9", "docs/upgrade.md"),
        ];
        for (problem, wanted) in expect {
            assert!(advice_on(problem, "c").contains(wanted), "{problem}: {}", advice_on(problem, "c"));
        }
    }
}
