//! Greetings without the token, and with what somebody has learnt of it.

use super::Attack;
use crate::cluster::{Cluster, TIMEOUT, random_token};
use crate::finding::{Finding, Setback};
use crate::lab::Lab;
use crate::relay::Relay;
use crate::tls;
use crate::wire::{Channel, Peer, client_name, connect, hello_bytes, is_pause};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use treefold::parts::wire::{Hello, Inbox, Incoming, Side};
use treefold::{ClusterOptions, NodeId, Token};
use treefold_core::limits::Limits;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "hello-replay",
        about: "a false server learns the greetings of a client and of a node, and uses them at all nodes",
        play: replay_hello,
    },
    Attack {
        name: "sniffed-hello-replay",
        about: "somebody on the line records whole connections, and sends their bytes again",
        play: replay_sniffed,
    },
    Attack {
        name: "man-in-the-middle",
        about: "a relay that ends the TLS session of each side itself, between a client or a node and a node",
        play: stand_between,
    },
    Attack {
        name: "wrong-token",
        about: "a client, a node and greetings with another token or none",
        play: use_wrong_token,
    },
    Attack {
        name: "plain-client",
        about: "a client and a node without a token at a cluster with one, and the other way round",
        play: speak_plainly,
    },
];

const NODES: usize = 4;
const CALLS: usize = 5;
/// Time that a node has to join somebody who is no member.
const JOIN_TIME: Duration = Duration::from_secs(3);
/// The read timeout of a relay that serves both sides in turn.
const TURN: Duration = Duration::from_millis(5);
/// The name under which strangers greet as a node.
const STRANGER: NodeId =
    NodeId::new(SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9), 7);

/// Sends bytes as a greeting. Returns the text of the fault, or `None` if the node greets back.
fn greets_back(peer: io::Result<Peer>, greeting: &[u8]) -> Result<(), String> {
    let mut peer = peer.map_err(|error| error.to_string())?;
    peer.send_bytes(greeting).map_err(|error| error.to_string())?;
    loop {
        match peer.next() {
            Ok(Incoming::Fault(fault)) => return Err(fault.to_string()),
            Ok(Incoming::Hello(_)) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// A connection in a TLS session, and the secret to which a greeting is bound.
pub(super) fn session(addr: SocketAddr) -> io::Result<(Peer, tls::Secret)> {
    let (stream, secret) = tls::dial(addr, TIMEOUT)?;
    Ok((Peer::over(Box::new(stream)), secret))
}

/// The number of nodes that take a greeting, and the last reason of one that does not.
fn taken(cluster: &Cluster<'_>, greeting: &[u8]) -> (usize, String) {
    let (mut taken, mut last) = (0, String::new());
    for node in &cluster.nodes {
        match greets_back(session(node.addr).map(|(peer, _)| peer), greeting) {
            Ok(()) => taken += 1,
            Err(reason) => last = reason,
        }
    }
    (taken, last)
}

/// A server without the token that greets nobody, and passes on every greeting that it learns.
fn false_server() -> Result<(SocketAddr, Receiver<Vec<u8>>), Setback> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Setback::doing("listen"))?;
    let addr = listener.local_addr().map_err(Setback::doing("listen"))?;
    let (send, receive) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let send: Sender<Vec<u8>> = send.clone();
            thread::spawn(move || {
                let learnt = tls::accept(stream, TIMEOUT).and_then(|mut stream| first_frame(&mut stream));
                learnt.map(|bytes| send.send(bytes))
            });
        }
    });
    Ok((addr, receive))
}

/// Reads bytes until a greeting is complete.
fn first_frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut inbox, mut bytes, mut buffer) = (Inbox::new(Limits::DEFAULT), Vec::new(), [0; 4_096]);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..read]);
        inbox.put(&buffer[..read]);
        if inbox.next().map_err(io::Error::other)?.is_some() {
            return Ok(bytes);
        }
    }
}

fn replay_hello(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start_with_token(lab, NODES)?;
    let (addr, learnt) = false_server()?;
    let client = cluster.client_of(addr, cluster.options()).err();
    let of_client = learnt.recv_timeout(TIMEOUT).map_err(Setback::doing("learn a client's greeting"))?;
    let words = ["--listen", "127.0.0.1:0", "--join", &addr.to_string()];
    cluster.run_briefly(cluster.token.as_deref(), &words, JOIN_TIME)?;
    let of_node = learnt.recv_timeout(TIMEOUT).map_err(Setback::doing("learn a node's greeting"))?;
    let [(clients, why), (nodes, _)] = [&of_client, &of_node].map(|greeting| taken(&cluster, greeting));
    let tally = cluster.calls(CALLS, &cluster.places());
    let seen = format!(
        "a client's greeting, learnt by a false server, was taken by {clients} of {NODES} nodes, and a node's by \
        {nodes} ({why}); the \
         client learnt: {}; {}",
        client.map_or("nothing, it is connected".to_owned(), |error| error.to_string()),
        tally.text()
    );
    Ok(Finding::new(clients + nodes == 0 && tally.is_full(), seen))
}

fn calls_started(cluster: &Cluster<'_>) -> Result<u64, Setback> {
    let of = |at| cluster.status(at).map(|status| status.counters.calls.started);
    let all: Result<Vec<u64>, _> = cluster.places().into_iter().map(of).collect();
    Ok(all.map_err(Setback::doing("read a node's counters"))?.iter().sum())
}

fn replay_sniffed(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start_with_token(lab, NODES)?;
    let relay = Relay::start(SocketAddr::from(([127, 0, 0, 1], 0)), cluster.nodes[0].addr)?;
    let client = cluster
        .client_of(relay.addr, cluster.options())
        .map_err(Setback::doing("connect a legitimate client through the relay"))?;
    let through = cluster.calls_of(&client, CALLS);
    if !through.is_full() {
        return Err(Setback::new(format!("calls through the relay are not full: {}", through.text())));
    }
    let words = ["--listen", "127.0.0.1:0", "--join", &relay.addr.to_string()];
    cluster.run_briefly(cluster.token.as_deref(), &words, JOIN_TIME)?;
    let recorded = relay.dialled();
    let before = calls_started(&cluster)?;
    let (mut replayed, mut open) = (0, 0);
    for node in &cluster.nodes {
        for bytes in &recorded {
            replayed += 1;
            open += usize::from(stays_open(node.addr, bytes).unwrap_or(false));
        }
    }
    let again = calls_started(&cluster)? - before;
    let tally = cluster.calls(CALLS, &cluster.places());
    let seen = format!(
        "{} recorded connections of {} bytes were sent again, {replayed} times in all: {open} connections stayed \
        open, and {again} calls \
         were made again; {}",
        recorded.len(),
        recorded.iter().map(Vec::len).sum::<usize>(),
        tally.text()
    );
    Ok(Finding::new(again == 0 && open == 0 && tally.is_full(), seen))
}

/// Sends recorded bytes. True if the node leaves the connection open.
fn stays_open(addr: SocketAddr, bytes: &[u8]) -> io::Result<bool> {
    let mut stream = connect(addr, TIMEOUT + Duration::from_secs(1))?;
    stream.write_all(bytes)?;
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Ok(is_pause(&error)),
        }
    }
}

/// Ends the session of each dialler, makes one with `target`, and passes the bytes on. Tells the number of bytes that the target
/// has sent back.
fn relay_of_sessions(target: SocketAddr) -> Result<(SocketAddr, Receiver<usize>), Setback> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Setback::doing("listen"))?;
    let addr = listener.local_addr().map_err(Setback::doing("listen"))?;
    let (send, receive) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let send: Sender<usize> = send.clone();
            thread::spawn(move || -> io::Result<()> {
                let mut near = tls::accept(stream, TIMEOUT)?;
                let (mut far, _) = tls::dial(target, TIMEOUT)?;
                near.sock.set_read_timeout(Some(TURN))?;
                far.sock.set_read_timeout(Some(TURN))?;
                let _ = send.send(alternate(&mut near, &mut far));
                Ok(())
            });
        }
    });
    Ok((addr, receive))
}

/// Passes bytes on in both directions until one ends. Returns the number of bytes from `far`.
fn alternate(near: &mut dyn Channel, far: &mut dyn Channel) -> usize {
    let (end_at, mut buffer, mut back) = (Instant::now() + TIMEOUT, vec![0; 64 << 10], 0);
    while Instant::now() < end_at {
        let Ok(_) = pass(near, far, &mut buffer) else { break };
        let Ok(passed) = pass(far, near, &mut buffer) else { break };
        back += passed;
    }
    back
}

fn pass(from: &mut dyn Channel, to: &mut dyn Channel, buffer: &mut [u8]) -> io::Result<usize> {
    match from.read(buffer) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(read) => to.write_all(&buffer[..read]).and_then(|()| to.flush()).map(|()| read),
        Err(error) if is_pause(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

fn stand_between(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start_with_token(lab, NODES)?;
    let (addr, passed) = relay_of_sessions(cluster.nodes[0].addr)?;
    let (through, client) = match cluster.client_of(addr, cluster.options()) {
        Ok(client) => (cluster.calls_of(&client, CALLS).full, "connects".to_owned()),
        Err(error) => (0, format!("learns: {error}")),
    };
    let words = ["--listen", "127.0.0.1:0", "--join", &addr.to_string()];
    let node = cluster.run_briefly(cluster.token.as_deref(), &words, JOIN_TIME)?;
    let members = cluster.members_most();
    let passed: Vec<usize> = passed.try_iter().collect();
    let tally = cluster.calls(CALLS, &cluster.places());
    let seen = format!(
        "{} sessions were ended in the middle, and {} bytes came back through them; {through} of {CALLS} calls of a \
        client went \
         through; it {client}; a node that joins through the relay {}, and logs {:?}; {}",
        passed.len(),
        passed.iter().sum::<usize>(),
        if members > NODES { "is a member" } else { "is no member" },
        first_warning(&node.stderr),
        tally.text()
    );
    Ok(Finding::new(through == 0 && members == NODES && !passed.is_empty() && tally.is_full(), seen))
}

/// The first line of a log that says that something was refused.
fn first_warning(log: &str) -> &str {
    log.lines()
        .find(|line| line.contains("WARN"))
        .map_or("nothing", |line| line.split_once("WARN").map_or(line, |(_, rest)| rest.trim()))
}

fn use_wrong_token(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start_with_token(lab, NODES)?;
    let wrong = Token::new(random_token()?);
    let mut taken = 0;
    let mut reasons = Vec::new();
    for name in [client_name(7), STRANGER] {
        for token in [wrong.as_ref(), None] {
            let addr = cluster.nodes[0].addr;
            let greeted = session(addr).map(|(peer, secret)| {
                (peer, hello_bytes(&Hello::new(&cluster.name, name).sealed(token, Side::Dials, &secret)))
            });
            let answer = match greeted {
                Ok((peer, greeting)) => greets_back(Ok(peer), &greeting),
                Err(error) => Err(error.to_string()),
            };
            match answer {
                Ok(()) => taken += 1,
                Err(reason) => reasons.push(reason),
            }
        }
    }
    let client =
        cluster.client_of(cluster.nodes[0].addr, ClusterOptions::new(&cluster.name).token(wrong.clone()));
    let words = ["--listen", "127.0.0.1:0", "--join", &cluster.nodes[0].addr.to_string()];
    let node = cluster.run_briefly(wrong.as_ref().map(Token::reveal), &words, JOIN_TIME)?;
    let (members, tally) = (cluster.members_most(), cluster.calls(CALLS, &cluster.places()));
    let is_client_refused = client.is_err();
    let seen = format!(
        "{taken} of 4 forged greetings were taken (refused with {:?}); the client learns: {}; the node {}, and logs \
        {:?}; {}",
        reasons.first().map_or("", String::as_str),
        client.err().map_or("nothing, it is connected".to_owned(), |error| error.to_string()),
        if members > NODES { "is a member" } else { "is no member" },
        first_warning(&node.stderr),
        tally.text()
    );
    Ok(Finding::new(taken == 0 && is_client_refused && members == NODES && tally.is_full(), seen))
}

fn speak_plainly(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start_with_token(lab, NODES)?;
    let (mut taken, mut reason) = (0, String::new());
    for name in [client_name(7), STRANGER] {
        match greets_back(Peer::plain(cluster.nodes[0].addr), &hello_bytes(&Hello::new(&cluster.name, name)))
        {
            Ok(()) => taken += 1,
            Err(text) => reason = text,
        }
    }
    let client = cluster.client_of(cluster.nodes[0].addr, ClusterOptions::new(&cluster.name)).err();
    let words = ["--listen", "127.0.0.1:0", "--join", &cluster.nodes[0].addr.to_string()];
    let node = cluster.run_briefly(None, &words, JOIN_TIME)?;
    let members = cluster.members_most();
    let open = Cluster::start(lab, 1)?;
    let options = ClusterOptions::new(&open.name).token(Token::new(random_token()?));
    let other_way = open.client_of(open.nodes[0].addr, options).err();
    let tally = cluster.calls(CALLS, &cluster.places());
    let said = |error: Option<treefold::Error>| {
        error.map_or("nothing, it is connected".to_owned(), |error| error.to_string())
    };
    let refused =
        taken == 0 && client.is_some() && other_way.is_some() && members == NODES && tally.is_full();
    let seen = format!(
        "{taken} of 2 plain greetings were taken ({reason}); the client without a token learns: {}; the client with \
        a token at a \
         cluster without one learns: {}; the node {}, and logs {:?}; {}",
        said(client),
        said(other_way),
        if members > NODES { "is a member" } else { "is no member" },
        first_warning(&node.stderr),
        tally.text()
    );
    Ok(Finding::new(refused, seen))
}
