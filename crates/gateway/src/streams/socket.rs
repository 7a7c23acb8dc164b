//! A stream over a WebSocket: messages of text with JSON up, commands and packets down.
//!
//! | from the reader | meaning |
//! |---|---|
//! | `{"send": PACKET}` | sends a packet to all endpoints; answered by `{"sent": {"tag": N}}` |
//! | `{"send": PACKET, "tag": N}`, with `"to": "0-3"` | the same under a tag of the reader's choice, to some endpoints |
//! | a binary message | sends its bytes to all endpoints |
//!
//! A message that is wrong is answered by `{"refused": …}`, and the stream goes on. Messages above the tenant's rate wait, the
//! wrong ones too. So do messages beyond the stream's window: the reader's side of the connection then fills, and its sends
//! wait. Frames that carry nothing have a limit of their own (`frames`).

use super::event::Event;
use super::frames::{Counted, TooManyFrames};
use super::reader::Reader;
use crate::limits::Limits;
use crate::problem::{Kind, Problem};
use crate::tenants::Tenant;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::handshake::server::create_response;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use treefold::StreamSender;
use treefold::operators::text::json;
use treefold_forms::stream;
use treefold_http::Kept;
use treefold_http::messages::Framing;

/// The protocol of a page that says its token among the protocols.
const PROTOCOL: &str = "treefold.v1";
/// Answers to commands that wait to be written.
const ANSWERS_WAITING_MAX: usize = 16;
/// Bytes that wait to be written to a connection, beside one message.
const WRITE_BUFFER_BYTES: usize = 64 << 10;
/// Time that a reader has for its part of the closing.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// A request that may take its connection over.
pub(super) struct Upgrade {
    response: Response<()>,
    connection: OnUpgrade,
}

/// A connection that was taken over.
type Socket = WebSocketStream<Counted<TokioIo<Upgraded>>>;

impl Upgrade {
    /// Reads the request for a WebSocket.
    ///
    /// # Errors
    /// The reason why it is none.
    pub(super) fn of(mut request: Parts) -> Result<Self, String> {
        let connection = request.extensions.remove::<OnUpgrade>();
        let request = Request::from_parts(request, ());
        let mut response = create_response(&request).map_err(|error| error.to_string())?;
        let connection =
            connection.ok_or("a WebSocket is opened over HTTP/1.1; found another version".to_owned())?;
        let given = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let mut given = given.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
        if given.any(|protocol| protocol.trim() == PROTOCOL) {
            let protocol = HeaderValue::from_static(PROTOCOL);
            response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        Ok(Self { response, connection })
    }

    /// Takes the connection over.
    pub(super) fn answer(
        self,
        reader: Reader,
        tenant: Arc<Tenant>,
        limits: &Limits,
        kept: Option<Kept>,
    ) -> Response {
        let Self { response, connection } = self;
        let config = WebSocketConfig::default()
            .max_message_size(Some(limits.message_bytes_max))
            .max_frame_size(Some(limits.message_bytes_max))
            .write_buffer_size(0)
            .max_write_buffer_size(WRITE_BUFFER_BYTES);
        tokio::spawn(async move {
            // The client may be gone.
            let Ok(upgraded) = connection.await else { return };
            let counted = Counted::new(TokioIo::new(upgraded));
            let socket = WebSocketStream::from_raw_socket(counted, Role::Server, Some(config)).await;
            let revoked = async {
                match &kept {
                    Some(kept) => kept.revoked().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = serve(socket, reader, &tenant) => {}
                () = revoked => {}
            }
        });
        response.map(|()| Body::empty())
    }
}

async fn serve(socket: Socket, mut reader: Reader, tenant: &Tenant) {
    let (mut out, mut messages) = socket.split();
    let (answers, mut answered) = mpsc::channel(ANSWERS_WAITING_MAX);
    let taking = take(&mut messages, reader.sender(), tenant, answers);
    let giving = async {
        loop {
            // The answer to a packet comes before its wave.
            let message = tokio::select! {
                biased;
                Some(answer) = answered.recv() => answer,
                event = reader.next() => match event {
                    Ok(Event::Alive) => Message::Ping(Bytes::new()),
                    Ok(event) => said(event.name(), |out| event.write(out)),
                    Err(problem) => break Some(problem),
                },
            };
            if out.send(message).await.is_err() {
                break None;
            }
        }
    };
    let problem = tokio::select! {
        problem = giving => problem,
        problem = taking => problem,
    };
    let Some(problem) = problem else { return };
    // The stream is over; its place is free for others while the reader is told.
    drop(reader);
    let closing = async {
        close(&mut out, &mut messages, &problem).await?;
        if let Ok(mut socket) = out.reunite(messages) {
            socket.get_mut().end().await;
        }
        Some(())
    };
    // The reader may be gone, or take nothing.
    let _ = timeout(CLOSE_WITHIN, closing).await;
}

/// Tells the reader why the stream ends, and waits for its part.
async fn close(
    out: &mut SplitSink<Socket, Message>,
    messages: &mut SplitStream<Socket>,
    problem: &Problem,
) -> Option<()> {
    out.send(said("closed", |out| out.extend_from_slice(problem.to_json().trim_ascii_end()))).await.ok()?;
    let code = match problem.kind() {
        Kind::Ending => CloseCode::Away,
        Kind::NoToken | Kind::Denied | Kind::SlowReader | Kind::Rate => CloseCode::Policy,
        Kind::BodyTooLarge => CloseCode::Size,
        _ => CloseCode::Error,
    };
    out.send(Message::Close(Some(CloseFrame { code, reason: problem.kind().name().into() }))).await.ok()?;
    while let Some(Ok(_)) = messages.next().await {}
    Some(())
}

/// A message with a name.
fn said(name: &str, write: impl FnOnce(&mut Vec<u8>)) -> Message {
    let mut out = Vec::new();
    Framing::Lines.open(name, None, &mut out);
    write(&mut out);
    Framing::Lines.close(&mut out);
    let text = String::from_utf8(out).expect("invariant: JSON is UTF-8");
    Message::text(text.trim_end())
}

/// Takes messages until the reader goes away, or a packet cannot be sent because the stream is over.
async fn take(
    messages: &mut SplitStream<Socket>,
    sender: StreamSender,
    tenant: &Tenant,
    answers: mpsc::Sender<Message>,
) -> Option<Problem> {
    while let Some(message) = messages.next().await {
        let command = match message {
            Ok(Message::Text(text)) => Command::read(&text),
            Ok(Message::Binary(bytes)) => Ok(Command { packet: bytes, tag: None, to: None }),
            // The next turn answers a close, and ends.
            Ok(_) => continue,
            Err(error) => return over_a_limit(&error),
        };
        // A wrong message counts too, or a flood of them would be free.
        wait_for_rate(tenant).await;
        let tag = match command {
            Ok(command) => command.send(&sender).await,
            Err(problem) => Err(problem),
        };
        let answer = match tag {
            Ok(tag) => said("sent", |out| out.extend_from_slice(format!("{{\"tag\":{tag}}}").as_bytes())),
            Err(problem) if problem.kind() == Kind::Ending => return Some(problem),
            Err(problem) => said("refused", |out| out.extend_from_slice(problem.to_json().trim_ascii_end())),
        };
        if answers.send(answer).await.is_err() {
            return None;
        }
    }
    None
}

/// The problem of a reader that exceeds a limit; `None` if the connection is over.
fn over_a_limit(error: &Error) -> Option<Problem> {
    match error {
        Error::Capacity(error @ CapacityError::MessageTooLong { max_size, .. }) => {
            let detail = format!("{error} (message_bytes_max)");
            Some(Problem::new(Kind::BodyTooLarge, detail).about("send").limit(max_size))
        }
        Error::Io(error) => {
            let frames = error.get_ref().and_then(|error| error.downcast_ref::<TooManyFrames>())?;
            let problem = Problem::new(Kind::Rate, frames.to_string()).about("frames");
            Some(problem.limit(Limits::IDLE_FRAMES_PER_S))
        }
        _ => None,
    }
}

/// Counts a message as a request, and waits if there are too many.
async fn wait_for_rate(tenant: &Tenant) {
    while let Err(problem) = tenant.count_request(Instant::now()) {
        sleep(problem.retry_after().unwrap_or(CLOSE_WITHIN)).await;
    }
}

/// A packet to send down.
#[derive(Debug, PartialEq)]
struct Command {
    packet: Bytes,
    tag: Option<u64>,
    to: Option<treefold::PartitionSet>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    send: Value,
    #[serde(default)]
    tag: Option<u64>,
    #[serde(default)]
    to: Option<String>,
}

impl Command {
    fn read(text: &str) -> Result<Self, Problem> {
        let bad = |problem: String| {
            let detail = format!("the message is no command: {problem}; as in {{\"send\": 7}}");
            Problem::new(Kind::BadBody, detail).about("send")
        };
        let Given { send, tag, to } = json::from_str(text).map_err(|error| bad(error.to_string()))?;
        if to.is_some() && tag.is_none() {
            return Err(bad("a packet to some endpoints needs a tag".to_owned()).about("tag"));
        }
        let to = to.map(|to| stream::endpoints(&to)).transpose()?;
        Ok(Self { packet: stream::payload_of_json(&send).map_err(bad)?, tag, to })
    }

    async fn send(self, sender: &StreamSender) -> Result<u64, Problem> {
        let Self { packet, tag, to } = self;
        match (tag, to) {
            (None, _) => return Ok(sender.send(packet).await?),
            (Some(tag), None) => sender.send_tagged(tag, packet).await?,
            (Some(tag), Some(to)) => sender.send_to(to, tag, packet).await?,
        }
        Ok(tag.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_a_packet_and_may_have_a_tag_and_endpoints() {
        let read = |text: &str| Command::read(text).map(|command| (command.packet.to_vec(), command.tag));
        assert_eq!(read(r#"{"send": 7}"#).unwrap(), (vec![7], None));
        assert_eq!(read(r#"{"send": 7, "tag": 3, "to": "0-1"}"#).unwrap(), (vec![7], Some(3)));
        for (text, name) in [
            (r#"{"send": 7, "to": "0"}"#, "bad_body"),
            (r#"{"send": 7, "tag": 3, "to": "x"}"#, "bad_field"),
            (r#"{"send": {"format": "i64", "values": ["a"]}}"#, "bad_body"),
            (r#"{"sent": 7}"#, "bad_body"),
            (r#"{"send": 12345678901234567890123}"#, "bad_body"),
            (r#"{"send": {"a": {"b": 1, "b": 2}}}"#, "bad_body"),
            ("7", "bad_body"),
        ] {
            assert_eq!(read(text).unwrap_err().name(), name, "{text}");
        }
    }

    #[test]
    fn messages_are_json_of_one_name() {
        let Message::Text(text) = said("sent", |out| out.extend_from_slice(b"{\"tag\":3}")) else { panic!() };
        assert_eq!(text.as_str(), r#"{"sent":{"tag":3}}"#);
    }
}
