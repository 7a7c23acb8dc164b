//! NATS core and JetStream, by a bare client.
//!
//! JetStream's stream keeps one message a subject, as a key-value bucket does. A reader that joins makes a consumer of the last
//! message of each subject, and has the snapshot when no message is pending. The publisher keeps a bounded number of messages
//! without an acknowledgement.

use crate::Problem;
use crate::redis::{await_port, free_port};
use crate::source::Sink;
use crate::wire::{Wire, decimal, invalid};
use bytestring::ByteString;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use treefold_bench_down::part::Server;

/// Messages are written together up to this many bytes.
const BATCH_BYTES: usize = 64 << 10;
/// Messages to JetStream without an acknowledgement.
const OPEN_MAX: u64 = 4_000;
/// Bytes that the server holds for a slow subscriber before it cuts it off. NATS core has no flow control, so the default of 64 MiB
/// would cut off readers at saturation.
const PENDING_BYTES_MAX: u64 = 1 << 30;
const STREAM: &str = "ev";
/// The environment variable that names another server program. Only 2.10 and later know `sync_interval: always`.
const PROGRAM: &str = "NATS_SERVER";

/// A server.
#[derive(Debug)]
pub(crate) struct Nats {
    server: Server,
    port: u16,
    folder: tempfile::TempDir,
}

impl Nats {
    pub(crate) fn start() -> Result<Self, Problem> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let server = launch(&folder, port, None)?;
        Ok(Self { server, port, folder })
    }

    /// Starts the server again with its store and a setting of `sync_interval`.
    pub(crate) fn restart(&mut self, sync: &str) -> Result<(), Problem> {
        // SIGTERM lets it write its store.
        treefold_bench_down::clock::signal(self.server.id(), libc::SIGTERM)?;
        while !self.server.has_ended()? {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.server = launch(&self.folder, self.port, Some(sync))?;
        Ok(())
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }

    /// Makes the stream.
    pub(crate) fn make_stream(&self) -> Result<(), Problem> {
        let wishes = json!({
            "name": STREAM, "subjects": ["e.*"], "max_msgs_per_subject": 1, "storage": "file", "retention": "limits",
            "discard": "old", "num_replicas": 1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_consumers": -1,
            "allow_direct": true,
        });
        let mut client = Connection::open(self.port)?;
        client.request(&format!("$JS.API.STREAM.CREATE.{STREAM}"), &wishes)?;
        Ok(())
    }
}

fn launch(folder: &tempfile::TempDir, port: u16, sync: Option<&str>) -> Result<Server, Problem> {
    let sync = sync.map_or(String::new(), |sync| format!("sync_interval: {sync}\n"));
    let settings = format!(
        "listen: 127.0.0.1:{port}\nmax_pending: {PENDING_BYTES_MAX}\nwrite_deadline: \"60s\"\njetstream {{\n  store_dir: \
         {:?}\n  {sync}}}\n",
        folder.path().join("store"),
    );
    let file = folder.path().join("nats.conf");
    std::fs::write(&file, settings)?;
    let program = std::env::var_os(PROGRAM).unwrap_or_else(|| "nats-server".into());
    let mut server = Server::start(Command::new(program).arg("-c").arg(&file))?;
    await_port(port, &mut server)?;
    Ok(server)
}

/// A message for this client.
#[derive(Debug)]
struct Message<'a> {
    /// The number of the subscription.
    number: usize,
    subject: &'a str,
    reply: Option<&'a str>,
    /// True if it has headers: here, only signs of life and questions of flow control do.
    has_headers: bool,
    payload: &'a [u8],
    read_ns: u64,
}

impl Message<'_> {
    /// The message as a row of a snapshot: the last part of its reply's subject is the number of pending messages.
    fn counted(&self) -> Taken {
        let is_complete = self.reply.and_then(|reply| reply.rsplit('.').next()) == Some("0");
        if self.has_headers { Taken::default() } else { Taken { rows: 1, is_complete } }
    }
}

impl Taken {
    fn after(self, before: Self) -> Self {
        Self { rows: before.rows + self.rows, is_complete: before.is_complete || self.is_complete }
    }
}

/// A connection.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    wire: Wire<TcpStream>,
    /// The first line of the present message.
    head: String,
    taken: Taken,
}

/// The rows of a snapshot so far.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    rows: u64,
    is_complete: bool,
}

impl Connection {
    fn open(port: u16) -> io::Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let mut wire = Wire::new(stream.try_clone()?);
        wire.line()?;
        stream.write_all(b"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":false}\r\nPING\r\n")?;
        let mut connection = Self { stream, wire, head: String::new(), taken: Taken::default() };
        while connection.wire.line()? != b"PONG" {}
        Ok(connection)
    }

    fn subscribe(&mut self, subject: &str, number: usize) -> io::Result<()> {
        self.stream.write_all(format!("SUB {subject} {number}\r\n").as_bytes())
    }

    /// The next message.
    fn next(&mut self) -> io::Result<Message<'_>> {
        let has_headers = loop {
            let line = self.wire.line()?;
            if line.starts_with(b"MSG ") || line.starts_with(b"HMSG ") {
                self.head.clear();
                self.head.push_str(std::str::from_utf8(line).map_err(|_| invalid("a message"))?);
                break self.head.starts_with('H');
            }
            match line {
                b"PING" => self.stream.write_all(b"PONG\r\n")?,
                line if line.starts_with(b"-ERR") => {
                    return Err(io::Error::other(String::from_utf8_lossy(line).into_owned()));
                }
                _ => {}
            }
        };
        let mut words = self.head.split_ascii_whitespace();
        words.next();
        let (Some(subject), Some(number)) = (words.next(), words.next()) else {
            return Err(invalid("a message"));
        };
        let bytes = decimal(words.next_back().unwrap_or_default().as_bytes())?;
        let headers =
            if has_headers { decimal(words.next_back().unwrap_or_default().as_bytes())? } else { 0 };
        let reply = words.next();
        let number = decimal(number.as_bytes())?;
        let (payload, read_ns) = self.wire.timed_part(bytes)?;
        let payload = payload.get(headers..).ok_or_else(|| invalid("a message"))?;
        Ok(Message { number, subject, reply, has_headers, payload, read_ns })
    }

    /// Asks the server, and waits for its answer.
    fn request(&mut self, subject: &str, wishes: &Value) -> Result<Value, Problem> {
        const ANSWERS: usize = 1;
        let inbox = format!("_I.{}", unique());
        self.subscribe(&inbox, ANSWERS)?;
        let wishes = wishes.to_string();
        self.stream
            .write_all(format!("PUB {subject} {inbox} {}\r\n{wishes}\r\n", wishes.len()).as_bytes())?;
        loop {
            let message = self.next()?;
            if message.number != ANSWERS {
                // The consumer's first messages may come before the answer.
                let taken = message.counted();
                self.taken = taken.after(self.taken);
                continue;
            }
            let answer: Value = serde_json::from_slice(message.payload)?;
            return match answer.get("error") {
                Some(error) => Err(format!("JetStream: {error}").into()),
                None => Ok(answer),
            };
        }
    }
}

/// A part of a subject that no other connection uses.
fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("p{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The publisher.
#[derive(Debug)]
pub(crate) struct Publisher {
    stream: TcpStream,
    batch: Vec<u8>,
    /// Where acknowledgements go to, with JetStream.
    inbox: Option<String>,
    sent: u64,
    acknowledged: Arc<Acknowledged>,
}

#[derive(Debug, Default)]
struct Acknowledged {
    count: Mutex<(u64, Option<String>)>,
    more: Condvar,
}

impl Publisher {
    pub(crate) fn connect(port: u16, has_acknowledgements: bool) -> Result<Self, Problem> {
        let mut connection = Connection::open(port)?;
        let stream = connection.stream.try_clone()?;
        let acknowledged = Arc::new(Acknowledged::default());
        let inbox = has_acknowledgements.then(|| format!("_I.{}", unique()));
        if let Some(inbox) = &inbox {
            connection.subscribe(inbox, 1)?;
        }
        let taking = Arc::clone(&acknowledged);
        // Without acknowledgements it still answers the server's pings.
        std::thread::spawn(move || {
            let ended = loop {
                match connection.next() {
                    Ok(message) if memchr::memmem::find(message.payload, b"\"error\"").is_some() => {
                        break String::from_utf8_lossy(message.payload).into_owned();
                    }
                    Ok(_) => taking.note(|count| count.0 += 1),
                    Err(error) => break error.to_string(),
                }
            };
            taking.note(|count| count.1 = Some(ended));
        });
        Ok(Self { stream, batch: Vec::with_capacity(2 * BATCH_BYTES), inbox, sent: 0, acknowledged })
    }
}

impl Acknowledged {
    fn note(&self, change: impl FnOnce(&mut (u64, Option<String>))) {
        change(&mut self.count.lock().unwrap_or_else(PoisonError::into_inner));
        self.more.notify_all();
    }

    /// Waits until all but `open_max` of the sent messages are acknowledged.
    fn wait(&self, sent: u64, open_max: u64) -> Result<(), Problem> {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |count: &mut (u64, Option<String>)| count.0 + open_max < sent && count.1.is_none();
        let count = self.more.wait_while(count, is_open).unwrap_or_else(PoisonError::into_inner);
        match &count.1 {
            Some(problem) => Err(format!("the publisher's connection: {problem}").into()),
            None => Ok(()),
        }
    }
}

impl Sink for Publisher {
    fn put(&mut self, key: &ByteString, _: u64, body: &[u8]) -> Result<(), Problem> {
        let out = &mut self.batch;
        out.extend_from_slice(b"PUB e.");
        out.extend_from_slice(key.as_bytes());
        out.push(b' ');
        if let Some(inbox) = &self.inbox {
            out.extend_from_slice(inbox.as_bytes());
            out.push(b' ');
        }
        write!(out, "{}\r\n", body.len())?;
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
        self.sent += 1;
        if self.batch.len() >= BATCH_BYTES {
            self.flush()?;
        }
        if self.inbox.is_some() && self.sent.is_multiple_of(64) {
            self.flush()?;
            self.acknowledged.wait(self.sent, OPEN_MAX)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Problem> {
        if !self.batch.is_empty() {
            self.stream.write_all(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Problem> {
        self.flush()?;
        if self.inbox.is_some() { self.acknowledged.wait(self.sent, 0) } else { Ok(()) }
    }
}

/// Follows the events until the server ends: the time of the read, key and body. `ready` is called once when no further event can be missed.
pub(crate) fn follow(
    port: u16,
    has_stream: bool,
    ready: impl FnOnce(),
    mut take: impl FnMut(u64, &[u8], &[u8]),
) -> Result<(), Problem> {
    let mut connection = Connection::open(port)?;
    if has_stream {
        consume(&mut connection, "new")?;
    } else {
        connection.subscribe("e.*", 2)?;
        // The server has the subscription when it answers.
        connection.stream.write_all(b"PING\r\n")?;
        while connection.wire.line()? != b"PONG" {}
    }
    ready();
    loop {
        let message = connection.next()?;
        let asks = message.has_headers.then(|| message.reply.map(str::to_owned)).flatten();
        if !message.has_headers {
            take(message.read_ns, message.subject.as_bytes().get(2..).unwrap_or_default(), message.payload);
        }
        if let Some(reply) = asks {
            answer_flow_control(&mut connection, &reply)?;
        }
    }
}

/// Takes the last message of each subject. Returns their number.
pub(crate) fn snapshot(port: u16) -> Result<u64, Problem> {
    let mut connection = Connection::open(port)?;
    let (name, pending) = consume(&mut connection, "last_per_subject")?;
    let mut taken = connection.taken;
    while !taken.is_complete && pending > 0 {
        let message = connection.next()?;
        taken = message.counted().after(taken);
        if message.has_headers
            && let Some(reply) = message.reply.map(str::to_owned)
        {
            answer_flow_control(&mut connection, &reply)?;
        }
    }
    let subject = format!("$JS.API.CONSUMER.DELETE.{STREAM}.{name}");
    connection.stream.write_all(format!("PUB {subject} 0\r\n\r\n").as_bytes())?;
    Ok(taken.rows)
}

/// Makes a consumer that pushes to this connection, as subscription 2. Returns its name and the number of its pending messages.
fn consume(connection: &mut Connection, policy: &str) -> Result<(String, u64), Problem> {
    let inbox = format!("d.{}", unique());
    connection.subscribe(&inbox, 2)?;
    let wishes = json!({ "stream_name": STREAM, "config": {
        "deliver_subject": inbox, "deliver_policy": policy, "ack_policy": "none", "max_deliver": 1, "filter_subject": "e.*",
        "replay_policy": "instant", "flow_control": true, "idle_heartbeat": 5_000_000_000_u64, "mem_storage": true,
        "num_replicas": 1,
    }});
    let made = connection.request(&format!("$JS.API.CONSUMER.CREATE.{STREAM}"), &wishes)?;
    let name = made.get("name").and_then(Value::as_str).ok_or("a consumer without a name")?;
    let pending = made.get("num_pending").and_then(Value::as_u64).unwrap_or(0);
    Ok((name.to_owned(), pending))
}

fn answer_flow_control(connection: &mut Connection, reply: &str) -> io::Result<()> {
    connection.stream.write_all(format!("PUB {reply} 0\r\n\r\n").as_bytes())
}
