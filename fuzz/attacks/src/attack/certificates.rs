//! Attacks with certificates, in a cluster with an authority of its own.
//!
//! Each must be refused with an error that says which: to the attacker in a fault, and in the log of the node.

use super::Attack;
use crate::cluster::{Cluster, TIMEOUT};
use crate::finding::{Finding, Setback};
use crate::keys::{Keys, Valid};
use crate::lab::Lab;
use crate::tls;
use crate::wire::{Peer, client_name, hello_bytes};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::parts::wire::{Hello, Incoming};
use treefold::push::Worker;
use treefold::shares::ShareSetting;
use treefold::{Client, ClusterOptions, Credentials, NodeId, Right};
use treefold_certificates::KeyFile;
use treefold_core::membership::card::MemberCard;
use treefold_core::message::Message;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "client-joins",
        about: "a client's certificate used to greet as a node, to run a node, and to pose as one",
        play: join_as_client,
    },
    Attack {
        name: "wrong-authority",
        about: "a client and a node with certificates of another authority for the same cluster",
        play: use_another_authority,
    },
    Attack {
        name: "certificate-out-of-time",
        about: "certificates that have expired, and that are not valid yet",
        play: be_out_of_time,
    },
    Attack {
        name: "no-certificate",
        about: "TLS sessions without a certificate, connections without TLS, and a token instead",
        play: show_nothing,
    },
    Attack {
        name: "without-the-right",
        about: "calls, streams, pushes, operators, shares and cards of a client without the right",
        play: exceed_rights,
    },
    Attack {
        name: "name-of-another",
        about: "a node's certificate used to greet under the name of another node",
        play: take_a_name,
    },
];

const NODES: usize = 3;
const CALLS: usize = 5;
/// Time that a node has to join.
const JOIN_TIME: Duration = Duration::from_secs(3);
/// Longer than the time between two refusals in a node's log.
const LOG_EVERY: Duration = Duration::from_millis(1_200);
/// Time for an answer to an attack.
const ANSWER_TIME: Duration = Duration::from_secs(3);

/// Greets under a name, with keys or without. An error is the text of the refusal.
fn greet(addr: SocketAddr, cluster: &str, name: NodeId, keys: Option<&KeyFile>) -> Result<Peer, String> {
    let (stream, _) = tls::dial_certified(addr, TIMEOUT, keys).map_err(|error| error.to_string())?;
    let mut peer = Peer::over(Box::new(stream));
    let mut answer = || -> io::Result<Incoming> {
        peer.send_bytes(&hello_bytes(&Hello::new(cluster, name)))?;
        peer.next()
    };
    match answer() {
        Ok(Incoming::Hello(_)) => Ok(peer),
        Ok(Incoming::Fault(fault)) => Err(fault.to_string()),
        Ok(other) => Err(format!("instead of a greeting: {other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Refusals of greetings, of which each must contain its sentence.
#[derive(Default)]
struct Refusals {
    all: usize,
    right: usize,
    told: Vec<String>,
}

impl Refusals {
    fn note(&mut self, answer: Result<Peer, String>, sentence: &str) {
        self.all += 1;
        let told = answer.err().unwrap_or_else(|| "it was taken".to_owned());
        self.right += usize::from(told.contains(sentence));
        self.told.push(told);
    }

    fn are_right(&self) -> bool {
        self.right == self.all
    }

    fn text(&self) -> String {
        format!(
            "{} of {} greetings were refused with the right reason ({})",
            self.right,
            self.all,
            self.told.join("; ")
        )
    }
}

/// Whether legitimate calls are full and nobody else is a member, and the same as a text.
fn aftermath(cluster: &Cluster<'_>) -> (bool, String) {
    let (members, tally) = (cluster.members_most(), cluster.calls(CALLS, &cluster.places()));
    (members == NODES && tally.is_full(), format!("{members} members afterwards; {}", tally.text()))
}

fn join_as_client(lab: &Lab) -> Result<Finding, Setback> {
    let (cluster, keys) = Cluster::start_with_keys(lab, NODES)?;
    let all = [Right::Call, Right::Stream, Right::Push, Right::Feed, Right::Read, Right::Operate];
    let file = keys.issue("climber", &all, None, Valid::Now)?;
    let mut refusals = Refusals::default();
    let name = NodeId::new(SocketAddr::from(([127, 0, 0, 1], 9)), 7);
    for node in &cluster.nodes {
        refusals.note(greet(node.addr, &cluster.name, name, Some(&file)), "does not allow it to join");
    }
    let path = keys.file("climber", &all, None)?;
    let words = ["--listen", "127.0.0.1:0", "--join", &cluster.nodes[0].addr.to_string()];
    let node = cluster.run_with_keys(&path, &words, JOIN_TIME)?;
    let (is_well, after) = aftermath(&cluster);
    let is_noted = cluster.log(0).contains("does not allow its process to join at its address");
    let seen = format!(
        "{}; a node with that file ends with exit code {:?}; the log of the node says so: {is_noted}; {after}",
        refusals.text(),
        node.code
    );
    Ok(Finding::new(refusals.are_right() && node.code == Some(2) && is_noted && is_well, seen))
}

fn use_another_authority(lab: &Lab) -> Result<Finding, Setback> {
    let (cluster, _) = Cluster::start_with_keys(lab, NODES)?;
    let theirs = Keys::new(&cluster.file("theirs"), &cluster.name)?;
    std::fs::create_dir(cluster.file("theirs")).map_err(Setback::doing("make a folder"))?;
    let mut refusals = Refusals::default();
    let client = theirs.issue("client", &[Right::Call], None, Valid::Now)?;
    let node = theirs.issue("node", &[Right::Join], Some("127.0.0.1"), Valid::Now)?;
    let sentence = "no authority that the other side trusts";
    refusals.note(greet(cluster.nodes[0].addr, &cluster.name, client_name(7), Some(&client)), sentence);
    let name = NodeId::new(SocketAddr::from(([127, 0, 0, 1], 9)), 7);
    refusals.note(greet(cluster.nodes[0].addr, &cluster.name, name, Some(&node)), sentence);
    let words = ["--listen", "127.0.0.1:0", "--join", &cluster.nodes[0].addr.to_string()];
    let run = cluster.run_with_keys(&theirs.of_node()?, &words, JOIN_TIME)?;
    let is_told = run.stderr.contains("no trusted authority has signed the certificate");
    let is_noted = cluster.log(0).contains("no trusted authority has signed the certificate");
    let (is_well, after) = aftermath(&cluster);
    let seen = format!(
        "{}; the log of such a node says why: {is_told} ({:?}), that of the attacked node too: {is_noted}; {after}",
        refusals.text(),
        run.stderr.lines().next().unwrap_or_default()
    );
    Ok(Finding::new(refusals.are_right() && is_told && is_noted && is_well, seen))
}

fn be_out_of_time(lab: &Lab) -> Result<Finding, Setback> {
    let (cluster, keys) = Cluster::start_with_keys(lab, NODES)?;
    let (mut refusals, mut is_noted) = (Refusals::default(), true);
    for (valid, sentence) in
        [(Valid::Before, "certificate has expired"), (Valid::Later, "certificate is not valid yet")]
    {
        let client = keys.issue("client", &[Right::Call], None, valid)?;
        let node = keys.issue("node", &[Right::Join], Some("127.0.0.1"), valid)?;
        let name = NodeId::new(SocketAddr::from(([127, 0, 0, 1], 9)), 7);
        let places = cluster.nodes.iter().zip([(client_name(7), &client), (name, &node)]);
        for (at, (name, file)) in places {
            refusals.note(greet(at.addr, &cluster.name, name, Some(file)), sentence);
        }
        is_noted &= cluster.log(0).contains(sentence);
        // A node logs one refusal a second.
        thread::sleep(LOG_EVERY);
    }
    let (is_well, after) = aftermath(&cluster);
    let seen = format!("{}; the log of the node says so: {is_noted}; {after}", refusals.text());
    Ok(Finding::new(refusals.are_right() && is_noted && is_well, seen))
}

fn show_nothing(lab: &Lab) -> Result<Finding, Setback> {
    let (cluster, _) = Cluster::start_with_keys(lab, NODES)?;
    let (addr, mut refusals) = (cluster.nodes[0].addr, Refusals::default());
    refusals.note(greet(addr, &cluster.name, client_name(7), None), "this side gives no certificate");
    let plain = Peer::greeted(addr, &cluster.name, client_name(7));
    refusals.note(
        plain.map(|(peer, _)| peer).map_err(|error| error.to_string()),
        "only one side encrypts connections",
    );
    let token = tls::dial(addr, TIMEOUT).map(|(stream, _)| Peer::over(Box::new(stream)));
    refusals.note(token.map_err(|error| error.to_string()), "");
    let client = cluster.client_of(addr, ClusterOptions::new(&cluster.name)).err();
    let learns = client.map_or("nothing, it is connected".to_owned(), |error| error.to_string());
    let (is_well, after) = aftermath(&cluster);
    let seen = format!("{}; a client without keys learns: {learns}; {after}", refusals.text());
    Ok(Finding::new(refusals.are_right() && learns.contains("only one side encrypts") && is_well, seen))
}

fn exceed_rights(lab: &Lab) -> Result<Finding, Setback> {
    let (cluster, keys) = Cluster::start_with_keys(lab, NODES)?;
    let file = keys.file("caller", &[Right::Call], None)?;
    let options = options_of(&file)?;
    let client = cluster
        .client_of(cluster.nodes[0].addr, options.clone())
        .map_err(Setback::doing("connect a client with few rights"))?;
    let mut answers = Vec::new();
    let (at, attempts) = (cluster.nodes[0].addr, client.clone());
    cluster.wait(async {
        let setting = ShareSetting { service: "micro".to_owned(), share: 9.0, class: None };
        answers
            .push(("set shares", attempts.set_shares([setting]).await.err().map(|error| error.to_string())));
        answers.push((
            "push an operator",
            attempts.operator_push("code").await.err().map(|error| error.to_string()),
        ));
        let other = attempts.call::<Sum>("other/sum", &()).deadline(ANSWER_TIME).await;
        answers.push(("call another service", other.err().map(|error| error.to_string())));
        let direct = Client::builder().at([at]).direct(true).cluster(options.clone()).connect().await;
        let stream = match direct {
            Ok(direct) => direct.stream("micro").open().await.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        answers.push(("open a stream", stream));
        let worker =
            Worker::builder("micro", 0).at([at]).cluster(options).timeout(ANSWER_TIME).attach().await;
        answers.push(("attach as a worker", worker.err().map(|error| error.to_string())));
    });
    let caller = keys.issue("caller", &[Right::Call], None, Valid::Now)?;
    let ghost = MemberCard::new(NodeId::new(SocketAddr::from(([127, 0, 0, 1], 9)), 7));
    let sent = greet(at, &cluster.name, client_name(8), Some(&caller)).and_then(|mut peer| {
        peer.send(&Message::Cards(vec![ghost.into()].into())).map_err(|error| error.to_string())
    });
    sent.map_err(Setback::doing("send a card"))?;
    let denied = answers.iter().filter(|(_, answer)| {
        answer.as_ref().is_some_and(|text| text.contains("the certificate does not give the right to"))
    });
    let (denied, all) = (denied.count(), answers.len());
    let (is_well, after) = aftermath(&cluster);
    let texts: Vec<String> = answers
        .iter()
        .map(|(what, answer)| format!("{what}: {}", answer.as_deref().unwrap_or("done")))
        .collect();
    let seen = format!(
        "{denied} of {all} attempts were refused for lack of the right ({}); {after}",
        texts.join("; ")
    );
    Ok(Finding::new(denied == all && is_well, seen))
}

fn options_of(file: &Path) -> Result<ClusterOptions, Setback> {
    let credentials = Credentials::load(file).map_err(Setback::doing("load keys"))?;
    Ok(ClusterOptions::default().credentials(credentials))
}

fn take_a_name(lab: &Lab) -> Result<Finding, Setback> {
    let (cluster, keys) = Cluster::start_with_keys(lab, NODES)?;
    let victim = cluster.id(1)?;
    let file = keys.issue("other", &[Right::Join], Some("127.0.0.2"), Valid::Now)?;
    let mut refusals = Refusals::default();
    for name in [victim, NodeId::new(victim.addr, victim.generation.wrapping_add(1))] {
        for at in [0, 2] {
            let answer = greet(cluster.nodes[at].addr, &cluster.name, name, Some(&file));
            refusals.note(answer, "does not allow it to join at its address");
        }
    }
    let (is_well, after) = aftermath(&cluster);
    Ok(Finding::new(refusals.are_right() && is_well, format!("{}; {after}", refusals.text())))
}
