//! Two sides meet: who accepts whom, and what each is told.

use super::*;
use bytes::Bytes;
use std::time::SystemTime;
use tokio::net::TcpListener;
use treefold_certificates::{Authority, Grant, Role, Services};
use treefold_core::message::Message;
use treefold_core::partitions::PartitionSet;
use treefold_core::right::Right;
use treefold_core::stream::StreamId;
use treefold_core::stream::message::{StreamMessage, StreamUp};

const STREAM: StreamId = StreamId { origin: 7, sequence: 1 };
/// More bytes than the system buffers for a connection that is not read.
const PAYLOAD_BYTES: usize = 48 << 20;

fn identity(addr: SocketAddr, generation: u64) -> Identity {
    let node = NodeId::new(addr, generation);
    Identity::new(node, ClusterOptions::new("test"), false)
}

fn packet_up() -> Message<Bytes> {
    Message::Stream(Box::new(StreamMessage::Up(StreamUp {
        stream: STREAM,
        lane: 0,
        tag: 1,
        serial: 0,
        payload: Some(vec![1; PAYLOAD_BYTES].into()),
        more: false,
        urgent: false,
        contributors: PartitionSet::first(1),
        missing: Vec::new(),
        holds_from: None,
    })))
}

type Met = (Result<Greeted, GreetError>, Result<Greeted, GreetError>);

/// A side that dials and a side that listens, with their tokens.
async fn meet(dials: Option<&str>, listens: Option<&str>) -> Met {
    let trust = |token: Option<&str>| token.and_then(Token::new).map_or(Trust::Open, Trust::Token);
    meet_as(client_id(), trust(dials), trust(listens)).await
}

/// A side that dials under a name, and a side that listens.
async fn meet_as(name: NodeId, dials: Trust, listens: Trust) -> Met {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let addr = listener.local_addr().expect("the listener is bound");
    let (mut dialler, mut host) = (identity(name.addr, name.generation), identity(addr, 2));
    (dialler.trust, host.trust) = (dials, listens);
    let accept = async {
        let (stream, _) = listener.accept().await.expect("the other side dials");
        welcome(stream, &host, |_| Ok(())).await
    };
    tokio::join!(dial(addr, &dialler), accept)
}

fn told(side: Result<Greeted, GreetError>) -> String {
    side.err().map(|error| error.to_string()).unwrap_or_default()
}

#[tokio::test]
async fn both_sides_learn_why_a_certificate_is_refused() {
    let (ours, theirs) = (Issuing::new(), Issuing::new());
    let (node, client) = (|| ours.trust(Role::Node, 0..2), || ours.trust(Role::Client, 0..2));
    let meet = |dials, listens| meet_as(client_id(), dials, listens);
    assert!(matches!(meet(client(), node()).await, (Ok(_), Ok(_))));
    let refused = [
        ("expired", "has expired", ours.trust(Role::Client, -2..-1)),
        ("not yet valid", "is not valid yet", ours.trust(Role::Client, 1..2)),
    ];
    for (case, why, trust) in refused {
        let (dialled, listened) = meet(trust, node()).await;
        assert_eq!(told(dialled), format!("the other side reports: this side's certificate {why}"), "{case}");
        let there = format!("the other side's certificate is not accepted: the certificate {why}");
        assert_eq!(told(listened), there, "{case}");
    }
    let (dialled, listened) = meet(theirs.trust(Role::Client, 0..2), node()).await;
    assert!(
        told(dialled).contains("no trusted authority has signed the certificate"),
        "the client refuses first"
    );
    assert!(
        told(listened).contains("no trusted authority has signed the certificate"),
        "and so does the node"
    );
    let (dialled, listened) = meet(client(), client()).await;
    assert!(told(dialled).contains("the certificate is not one of a node"), "a client can't pose as a node");
    assert!(told(listened).contains("this side's certificate is not one of a node"));
}

#[tokio::test]
async fn a_name_is_bound_to_its_certificate() {
    let ours = Issuing::new();
    let meet = |addr: [u8; 4], role| {
        let name = NodeId::new((addr, 7).into(), 1);
        meet_as(name, ours.trust(role, 0..2), ours.trust(Role::Node, 0..2))
    };
    assert!(matches!(meet([127, 0, 0, 1], Role::Node).await, (Ok(_), Ok(_))));
    for (addr, role) in [([127, 0, 0, 2], Role::Node), ([127, 0, 0, 1], Role::Client)] {
        let (dialled, listened) = meet(addr, role).await;
        assert!(told(dialled).contains("this side's certificate does not allow it to join at its address"));
        assert!(told(listened).contains("does not allow its process to join at its address"));
    }
}

#[tokio::test]
async fn without_certificates_the_address_of_a_name_is_called_back() {
    let nobody = NodeId::new(([127, 0, 0, 1], 1).into(), 1);
    let (dialled, listened) = meet_as(nobody, Trust::Open, Trust::Open).await;
    assert!(matches!(listened, Err(GreetError::Name(name)) if name == nobody));
    assert!(told(dialled).contains("another process has the name of this one"));
}

#[tokio::test]
async fn a_side_that_is_long_busy_is_still_greeted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let addr = listener.local_addr().expect("the listener is bound");
    let (host, dialler) = (identity(addr, 2), Identity::new(client_id(), ClusterOptions::new("test"), false));
    let accept_late = async {
        // The system makes the connection at once. The process comes to it later than a connection may take.
        tokio::time::sleep(CONNECT_TIMEOUT + Duration::from_millis(100)).await;
        let (stream, _) = listener.accept().await.expect("the other side has dialled");
        welcome(stream, &host, |_| Ok(())).await
    };
    let (dialled, welcomed) = tokio::join!(dial(addr, &dialler), accept_late);
    assert_eq!((told(dialled), told(welcomed)), (String::new(), String::new()));
}

#[tokio::test]
async fn a_process_that_ends_while_it_is_called_back_is_no_impostor() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let addr = listener.local_addr().expect("the listener is bound");
    let (host, gone) = (identity(addr, 2), identity(([127, 0, 0, 1], 1).into(), 1));
    let greets_and_ends = async {
        let (_read, write) =
            split(TcpStream::connect(addr).await.expect("it listens")).expect("a connection");
        gone.greet(&write, Side::Dials, &Session::default(), 7).await.expect("it is connected");
    };
    let accept = async {
        let (stream, _) = listener.accept().await.expect("the other side dials");
        welcome(stream, &host, |_| Ok(())).await
    };
    let ((), listened) = tokio::join!(greets_and_ends, accept);
    assert!(matches!(listened, Err(GreetError::Io(_))));
}

#[test]
fn numbers_of_connections_that_were_given_up_are_remembered() {
    let dials = dials::Dials::default();
    let dial = dials.begin();
    let number = dial.number;
    assert!(dials.check(number).is_ok() && dials.check(0).is_ok());
    drop(dial);
    assert!(matches!(dials.check(number), Err(GreetError::Io(_))));
    assert!(matches!(dials.check(number ^ (1 << 63)), Err(GreetError::NotMine)));
}

/// A node that answers greetings at its address.
async fn listening() -> (Identity, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let node = identity(listener.local_addr().expect("the listener is bound"), 3);
    let own = node.clone();
    let answers = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = welcome(stream, &own, |_| Ok(())).await;
        }
    });
    (node, answers)
}

#[tokio::test]
async fn nobody_takes_the_name_of_a_node_that_lives() {
    let ((victim, victims), (host, hosts)) = (listening().await, listening().await);
    assert!(dial(host.node.addr, &victim).await.is_ok(), "the node itself is confirmed");
    let stranger = identity(victim.node.addr, victim.node.generation);
    assert!(told(dial(host.node.addr, &stranger).await).contains("another process has the name of this one"));
    victims.abort();
    hosts.abort();
}

#[tokio::test]
async fn a_new_certificate_is_proven_on_an_old_session() {
    let ours = Issuing::new();
    let (node, client) = (ours.trust(Role::Node, 0..2), ours.trust(Role::Client, 0..2));
    let (dialled, listened) = meet_as(client_id(), client, node.clone()).await;
    let (dialled, listened) = (dialled.expect("it greets"), listened.expect("it greets"));
    let (Trust::Certificates(node), Trust::Certificates(renewed)) = (node, ours.trust(Role::Client, 0..3))
    else {
        unreachable!("these are certificates")
    };
    let (node, renewed) = (node.current(), renewed.current());
    let renewal = renewed.renewal(Side::Dials, &dialled.session.secret).expect("the key signs");
    let verify = |side, secret: &[u8]| node.prove_again(&renewal, side, secret).map(drop);
    assert_eq!(verify(Side::Dials, &listened.session.secret), Ok(()));
    assert_eq!(verify(Side::Dials, b"another session"), Err(Refusal::Signature));
    assert_eq!(
        verify(Side::Listens, &listened.session.secret),
        Err(Refusal::Usage),
        "a client's certificate"
    );
}

/// An authority.
struct Issuing(Authority);

impl Issuing {
    fn new() -> Self {
        Self(Authority::new("test").expect("the system has random bytes"))
    }

    /// The certificate of a process, from the first of these days from now until the last.
    fn trust(&self, role: Role, days: std::ops::Range<i32>) -> Trust {
        let at = |days: i32| {
            let away = Duration::from_secs(u64::from(days.unsigned_abs()) * 24 * 60 * 60);
            let now = SystemTime::now();
            if days < 0 { now - away } else { now + away }
        };
        let (may, places) = match role {
            Role::Node => (Right::Join, vec!["127.0.0.1".parse().expect("an address is a place")]),
            Role::Client => (Right::Call, Vec::new()),
        };
        let grant = Grant {
            cluster: "test".to_owned(),
            role,
            name: "x".to_owned(),
            may: [may].into_iter().collect(),
            services: Services::All,
            at: places,
        };
        let file = self.0.issue_from(&grant, at(days.start) - Duration::from_secs(60), at(days.end));
        Trust::Certificates(Credentials::unchecked(file.expect("the grant is valid")))
    }
}

#[tokio::test]
async fn a_beat_overtakes_a_payload_of_its_stream() {
    a_beat_overtakes(None).await;
}

#[tokio::test]
async fn a_beat_overtakes_a_payload_of_its_stream_in_a_session() {
    a_beat_overtakes(Some("secret")).await;
}

#[tokio::test]
async fn two_sides_meet_with_the_same_token_only() {
    let code = |side: Result<Greeted, GreetError>| match side {
        Err(GreetError::Fault(fault)) => Some(fault.code),
        _ => None,
    };
    let (dialled, listened) = meet(Some("one"), Some("two")).await;
    assert!(matches!(listened, Err(GreetError::Wire(WireError::Token))));
    assert_eq!(code(dialled), Some(FaultCode::Token));
    let (dialled, listened) = meet(None, Some("two")).await;
    assert!(matches!(listened, Err(GreetError::Plain)));
    assert_eq!(code(dialled), Some(FaultCode::Encryption));
    let (dialled, listened) = meet(Some("one"), None).await;
    assert!(matches!(listened, Err(GreetError::Encrypted)));
    assert!(matches!(dialled, Err(GreetError::Plain)));
    assert!(matches!(meet(Some("one"), Some("one")).await, (Ok(_), Ok(_))));
}

/// Sends a payload and then a beat, which comes first.
async fn a_beat_overtakes(token: Option<&str>) {
    let (sender, reader) = meet(token, token).await;
    let (sender, mut reader) =
        (sender.expect("the listener accepts the dialler"), reader.expect("the dialler greets"));

    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.push(&packet_up()).expect("the packet is within the limits");
    let is_all = sender.write.write_some(&mut outbox).expect("the connection is open");
    assert!(!is_all, "the reader has not started, so part of the payload waits here");
    let beat = Message::Stream(Box::new(StreamMessage::Beat { stream: STREAM }));
    outbox.push(&beat).expect("the beat is within the limits");

    let read = async {
        let mut came = Vec::new();
        while came.len() < 2 {
            while let Some(incoming) = reader.inbox.next().expect("the bytes are well-formed") {
                came.push(incoming);
            }
            if came.len() < 2 {
                let read = reader.read.read_into(&mut reader.inbox).await;
                assert_ne!(read.expect("the connection is open"), 0);
            }
        }
        came
    };
    let (written, came) = tokio::join!(sender.write.write_all(&mut outbox), read);
    written.expect("the connection is open");
    let kinds: Vec<&str> = came.iter().map(kind).collect();
    assert_eq!(kinds, ["beat", "packet"]);
}

fn kind(incoming: &Incoming) -> &'static str {
    match incoming {
        Incoming::Message(Message::Stream(message)) => match &**message {
            StreamMessage::Beat { .. } => "beat",
            StreamMessage::Up(up) if up.payload.as_ref().is_some_and(|all| all.len() == PAYLOAD_BYTES) => {
                "packet"
            }
            _ => "another",
        },
        _ => "another",
    }
}
