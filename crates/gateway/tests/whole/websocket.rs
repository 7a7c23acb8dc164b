//! Streams over a WebSocket: waves up, packets down.

use crate::tokens::{entry, world_of};
use crate::world::{WITHIN, World, ask};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::future::pending;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::{WebSocketStream, client_async};
use treefold::operators::packet::Row;
use treefold_gateway::tokens::{GatewayRight, draw};

struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    async fn open(world: &World, query: &str, protocols: Option<&str>) -> (Self, Response) {
        let url = format!("ws://{}/v1/streams/meters{query}", world.addr());
        let mut request = url.into_client_request().unwrap();
        if let Some(protocols) = protocols {
            let value = HeaderValue::from_str(protocols).unwrap();
            request.headers_mut().insert("sec-websocket-protocol", value);
        }
        let stream = TcpStream::connect(world.addr()).await.unwrap();
        let (socket, response) = client_async(request, stream).await.unwrap();
        (Self(socket), response)
    }

    async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// The next message of text; the end of the connection is `None`.
    async fn next(&mut self) -> Option<Value> {
        loop {
            match timeout(WITHIN, self.0.next()).await.expect("a message") {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    return Some(json!({"close": frame.map(|frame| u16::from(frame.code))}));
                }
                _ => return None,
            }
        }
    }

    /// The next message with a name.
    async fn named(&mut self, name: &str) -> Value {
        let message = self.next().await.expect("a message");
        message.get(name).unwrap_or_else(|| panic!("expected {name}, found {message}")).clone()
    }
}

#[tokio::test]
async fn packets_go_down_and_waves_come_up() {
    let world = World::usual().await;
    let (mut socket, _) = Socket::open(&world, "?sync=wait-for-all", None).await;
    assert_eq!(socket.named("opened").await["endpoints"], "0-2");
    socket.say(r#"{"send": {"format": "i64", "values": [5]}}"#).await;
    assert_eq!(socket.named("sent").await, json!({"tag": 1}));
    let wave = socket.named("wave").await;
    let packet = json!({"kind": "packet", "format": "i64", "values": [5]});
    assert_eq!((&wave["tag"], &wave["packets"]), (&json!(1), &json!([packet, packet, packet])));
    let raw = Row::new().i64(6).packet().into_bytes();
    socket.0.send(Message::binary(raw)).await.unwrap();
    assert_eq!(socket.named("sent").await["tag"], 2);
    assert_eq!(socket.named("wave").await["packets"][2]["values"], json!([6]));
    socket.say(r#"{"send": 7, "tag": 9, "to": "0"}"#).await;
    assert_eq!(socket.named("sent").await["tag"], 9);
    // A wrong message changes nothing.
    socket.say(r#"{"sind": 7}"#).await;
    let refused = loop {
        let message = socket.next().await.unwrap();
        if let Some(refused) = message.get("refused") {
            break refused.clone();
        }
    };
    assert_eq!(
        (&refused["type"], &refused["field"]),
        (&json!("urn:treefold:problem:bad_body"), &json!("send"))
    );
    socket.0.close(None).await.unwrap();
    while socket.next().await.is_some() {}
    world.until_streams(0).await;
}

#[tokio::test]
async fn connection_counts_until_its_stream_ends() {
    let world = World::with_limits(|limits| limits.connections_max = 1).await;
    let (socket, _) = Socket::open(&world, "", None).await;
    let refused = world.get("/healthz").await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "connections"));
    drop(socket);
    world.until_streams(0).await;
    let again = async {
        while world.get("/healthz").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(WITHIN, again).await.expect("the place is free again");
}

#[tokio::test]
async fn gateway_that_ends_closes_in_order_or_cuts_off() {
    let world = World::usual().await;
    let (mut socket, _) = Socket::open(&world, "", None).await;
    let (mut deaf, _) = Socket::open(&world, "?params=1&slow=wait", None).await;
    socket.named("opened").await;
    let World { node, gateway } = world;
    let draining = tokio::spawn(gateway.drain(Duration::from_secs(3)));
    assert_eq!(socket.named("closed").await["type"], "urn:treefold:problem:ending");
    assert_eq!(socket.named("close").await, 1001);
    assert_eq!(socket.next().await, None);
    timeout(WITHIN, draining).await.expect("a deaf reader does not hold the gateway").unwrap();
    let over = async { while deaf.next().await.is_some() {} };
    timeout(WITHIN, over).await.expect("the connection is closed");
    drop(node);
}

#[tokio::test]
async fn messages_are_bounded() {
    let world = World::with_limits(|limits| limits.message_bytes_max = 1_000).await;
    let (mut socket, _) = Socket::open(&world, "", None).await;
    socket.named("opened").await;
    socket.0.send(Message::binary(vec![0; 1_000])).await.unwrap();
    socket.named("sent").await;
    socket.named("wave").await;
    socket.0.send(Message::binary(vec![0; 1_001])).await.unwrap();
    assert_eq!(socket.named("closed").await["type"], "urn:treefold:problem:body_too_large");
    world.until_streams(0).await;
}

#[tokio::test]
async fn page_says_its_token_among_the_protocols() {
    let token = draw().unwrap();
    let (world, _file) = world_of(&[entry("page", &token, &["meters"], &[GatewayRight::Call])]).await;
    let protocols = format!("treefold.v1, bearer.{token}");
    let (mut socket, response) = Socket::open(&world, "", Some(&protocols)).await;
    assert_eq!(response.headers()["sec-websocket-protocol"], "treefold.v1");
    socket.named("opened").await;
    let refused =
        ask(world.addr(), "GET", "/v1/streams/meters", &[("sec-websocket-protocol", "bearer.x")], b"");
    assert_eq!(refused.await.problem(), "no_token");
}

#[tokio::test]
async fn broken_upgrade_is_refused() {
    let world = World::usual().await;
    let headers = [("upgrade", "websocket"), ("connection", "upgrade")];
    let answer = ask(world.addr(), "GET", "/v1/streams/meters", &headers, b"").await;
    assert_eq!((answer.status, answer.problem().as_str()), (400, "bad_field"));
    assert_eq!(answer.json()["field"], "upgrade");
    world.until_streams(0).await;
}

/// Sends the same frame until the gateway closes the connection, and returns the code and reason of its close.
async fn flooded(world: &World, first: Option<Message>, frame: Message) -> (u16, String, Value) {
    let (socket, _) = Socket::open(world, "", None).await;
    let (mut out, mut messages) = socket.0.split();
    let sending = async move {
        if let Some(first) = first {
            out.send(first).await.unwrap();
        }
        // A write fails once the connection is closed.
        while out.send(frame.clone()).await.is_ok() {}
        pending::<()>().await;
    };
    let reading = async {
        let mut closed = Value::Null;
        loop {
            match messages.next().await.expect("a close with a reason").expect("a close with a reason") {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    closed = message.get("closed").cloned().unwrap_or(closed);
                }
                Message::Close(Some(frame)) => {
                    return (frame.code.into(), frame.reason.to_string(), closed);
                }
                _ => {}
            }
        }
    };
    let told = async {
        tokio::select! {
            told = reading => told,
            () = sending => unreachable!("it never ends"),
        }
    };
    timeout(WITHIN, told).await.expect("the flood is ended")
}

#[tokio::test]
async fn flood_of_frames_that_carry_nothing_is_closed_with_the_reason_and_others_are_served() {
    let world = World::usual().await;
    let part = |code| Message::Frame(Frame::message(Bytes::new(), OpCode::Data(code), false));
    for (first, frame) in [
        (None, Message::Ping(Bytes::new())),
        (None, Message::Pong(Bytes::new())),
        (Some(part(Data::Text)), part(Data::Continue)),
    ] {
        let calling = async {
            loop {
                assert_eq!(world.sum("", "null").await.status, 200);
            }
        };
        let (code, reason, closed) = tokio::select! {
            told = flooded(&world, first, frame) => told,
            () = calling => unreachable!("it never ends"),
        };
        assert_eq!((code, reason.as_str()), (1008, "rate"));
        assert_eq!(closed["type"], "urn:treefold:problem:rate", "{closed}");
        assert_eq!((&closed["field"], &closed["limit"]), (&json!("frames"), &json!("100")), "{closed}");
        world.until_streams(0).await;
    }
}

#[tokio::test]
async fn some_pings_and_long_parts_of_messages_pass() {
    let world = World::usual().await;
    let (mut socket, _) = Socket::open(&world, "", None).await;
    socket.named("opened").await;
    for _ in 0..50 {
        socket.0.send(Message::Ping(Bytes::new())).await.unwrap();
    }
    for (code, is_last) in [(Data::Binary, false), (Data::Continue, false), (Data::Continue, true)] {
        let frame = Frame::message(Bytes::from(vec![0; 2_000]), OpCode::Data(code), is_last);
        socket.0.send(Message::Frame(frame)).await.unwrap();
    }
    assert_eq!(socket.named("sent").await["tag"], 1);
}

#[tokio::test]
async fn wrong_messages_count_against_the_rate_of_their_caller() {
    let world = World::with_limits(|limits| limits.requests_per_s = 5).await;
    let (mut socket, _) = Socket::open(&world, "", None).await;
    socket.named("opened").await;
    for _ in 0..40 {
        socket.say("{}").await;
    }
    for _ in 0..4 {
        socket.named("refused").await;
    }
    // The others wait for the rate, so hardly anything is left for calls.
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(world.sum("", "null").await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}
