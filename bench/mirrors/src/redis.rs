//! Redis: `HSET` for the state and `PUBLISH` for the events, by a bare client.
//!
//! The publisher pipelines both commands and keeps a bounded number without a reply. A reader that joins uses one connection in
//! RESP3: it subscribes, asks for the hash, and gets its events in between. A row and an event both bear the event's number, so a
//! row that is older than an event is dropped, and the snapshot is consistent. The server drops no subscriber.

use crate::Problem;
use crate::source::Sink;
use crate::wire::{Wire, decimal, invalid};
use crate::work::Work;
use bytestring::ByteString;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use treefold_bench_down::part::Server;

/// Commands are written together up to this many bytes.
const BATCH_BYTES: usize = 64 << 10;
/// Bytes of events without a reply.
const WINDOW_BYTES: usize = 1 << 20;
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Rows that one step of `HSCAN` returns, about.
const SCAN_ROWS: usize = 1_000;

/// A server.
#[derive(Debug)]
pub(crate) struct Redis {
    server: Server,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Result<Self, Problem> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.args(["--client-output-buffer-limit", "pubsub 0 0 0"]).current_dir(folder.path());
        let mut server = Server::start(&mut command)?;
        await_port(port, &mut server)?;
        Ok(Self { server, port, _folder: folder })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }
}

pub(crate) fn free_port() -> Result<u16, Problem> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Waits until a server listens.
pub(crate) fn await_port(port: u16, server: &mut Server) -> Result<(), Problem> {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if server.has_ended()? || began.elapsed() > START_TIMEOUT {
            return Err("the server did not start".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The publisher.
#[derive(Debug)]
pub(crate) struct Publisher {
    stream: TcpStream,
    replies: Wire<TcpStream>,
    batch: Vec<u8>,
    /// Commands without a reply.
    open: usize,
    open_max: usize,
}

impl Publisher {
    pub(crate) fn connect(port: u16, work: Work) -> Result<Self, Problem> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let open_max = 2 * (WINDOW_BYTES / (64 + work.bytes)).max(1);
        let replies = Wire::new(stream.try_clone()?);
        Ok(Self { stream, replies, batch: Vec::with_capacity(2 * BATCH_BYTES), open: 0, open_max })
    }

    fn write(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.batch)?;
        self.batch.clear();
        Ok(())
    }

    fn take_replies(&mut self, open_max: usize) -> io::Result<()> {
        while self.open > open_max {
            let reply = self.replies.line()?;
            if reply.first() != Some(&b':') {
                return Err(invalid(&format!("a number, but {:?}", String::from_utf8_lossy(reply))));
            }
            self.open -= 1;
        }
        Ok(())
    }
}

impl Sink for Publisher {
    fn put(&mut self, key: &ByteString, _: u64, body: &[u8]) -> Result<(), Problem> {
        let (out, key) = (&mut self.batch, key.as_bytes());
        write!(out, "*4\r\n$4\r\nHSET\r\n$1\r\ns\r\n${}\r\n", key.len())?;
        out.extend_from_slice(key);
        write!(out, "\r\n${}\r\n", body.len())?;
        out.extend_from_slice(body);
        write!(out, "\r\n*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n${}\r\n", 1 + key.len() + body.len())?;
        out.push(u8::try_from(key.len())?);
        out.extend_from_slice(key);
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
        self.open += 2;
        if self.batch.len() >= BATCH_BYTES || self.open >= self.open_max {
            self.write()?;
        }
        if self.open >= self.open_max {
            self.take_replies(self.open_max / 2)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Problem> {
        if !self.batch.is_empty() {
            self.write()?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Problem> {
        self.flush()?;
        Ok(self.take_replies(0)?)
    }
}

/// A connection that subscribes, and may ask for the state.
#[derive(Debug)]
pub(crate) struct Subscriber {
    stream: TcpStream,
    wire: Wire<TcpStream>,
}

/// A message on the way to a subscriber.
enum Push<'a> {
    /// An event: the time at which it was read, its key and its body.
    Event(u64, &'a [u8], &'a [u8]),
    Other,
}

impl Subscriber {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.write_all(b"HELLO 3\r\nSUBSCRIBE c\r\n")?;
        let mut wire = Wire::new(stream.try_clone()?);
        skip(&mut wire)?;
        skip(&mut wire)?;
        Ok(Self { stream, wire })
    }

    /// Follows the events until the server ends: the time of the read, key and body.
    pub(crate) fn follow(mut self, mut take: impl FnMut(u64, &[u8], &[u8])) -> io::Result<()> {
        loop {
            let line = self.wire.line()?;
            if line.first() != Some(&b'>') {
                return Err(invalid("a message"));
            }
            let parts = decimal(&line[1..])?;
            if let Push::Event(read_ns, key, body) = push(&mut self.wire, parts)? {
                take(read_ns, key, body);
            }
        }
    }

    /// Takes the state. Returns the number of its keys.
    pub(crate) fn snapshot(&mut self, scans: bool) -> io::Result<u64> {
        if !scans {
            self.stream.write_all(b"HGETALL s\r\n")?;
            let values = self.reply_head(b'%')?;
            return self.rows(2 * values);
        }
        let (mut cursor, mut rows) = (String::from("0"), 0);
        loop {
            self.stream.write_all(format!("HSCAN s {cursor} COUNT {SCAN_ROWS}\r\n").as_bytes())?;
            if self.reply_head(b'*')? != 2 {
                return Err(invalid("a step of a scan"));
            }
            cursor = String::from_utf8_lossy(bulk(&mut self.wire)?).into_owned();
            let head = self.wire.line()?;
            let values = decimal(head.get(1..).unwrap_or_default())?;
            rows += self.rows(values)?;
            if cursor == "0" {
                return Ok(rows);
            }
        }
    }

    /// Skips the events before a reply, and returns the number in its head.
    fn reply_head(&mut self, kind: u8) -> io::Result<usize> {
        loop {
            let line = self.wire.line()?;
            let count = decimal(line.get(1..).unwrap_or_default())?;
            match line.first() {
                Some(&b'>') => _ = push(&mut self.wire, count)?,
                Some(&first) if first == kind => return Ok(count),
                _ => return Err(invalid("the state")),
            }
        }
    }

    /// Reads keys and values.
    fn rows(&mut self, values: usize) -> io::Result<u64> {
        for _ in 0..values {
            bulk(&mut self.wire)?;
        }
        Ok(values as u64 / 2)
    }
}

fn bulk(wire: &mut Wire<TcpStream>) -> io::Result<&[u8]> {
    timed_bulk(wire).map(|(text, _)| text)
}

fn timed_bulk(wire: &mut Wire<TcpStream>) -> io::Result<(&[u8], u64)> {
    let head = wire.line()?;
    if head.first() != Some(&b'$') {
        return Err(invalid("a text"));
    }
    let bytes = decimal(&head[1..])?;
    wire.timed_part(bytes)
}

fn push(wire: &mut Wire<TcpStream>, parts: usize) -> io::Result<Push<'_>> {
    if parts != 3 {
        for _ in 0..parts {
            skip(wire)?;
        }
        return Ok(Push::Other);
    }
    let is_message = bulk(wire)? == b"message";
    bulk(wire)?;
    if !is_message {
        skip(wire)?;
        return Ok(Push::Other);
    }
    let (payload, read_ns) = timed_bulk(wire)?;
    let (&length, rest) = payload.split_first().ok_or_else(|| invalid("an event"))?;
    let (key, body) = rest.split_at_checked(length.into()).ok_or_else(|| invalid("an event"))?;
    Ok(Push::Event(read_ns, key, body))
}

/// Skips a value of RESP3.
fn skip(wire: &mut Wire<TcpStream>) -> io::Result<()> {
    let line = wire.line()?;
    let kind = *line.first().ok_or_else(|| invalid("a value"))?;
    if b"+:,#_(".contains(&kind) {
        return Ok(());
    }
    let count = decimal(&line[1..])?;
    match kind {
        b'$' => wire.part(count).map(|_| ()),
        b'*' | b'>' | b'~' => (0..count).try_for_each(|_| skip(wire)),
        b'%' => (0..2 * count).try_for_each(|_| skip(wire)),
        _ => Err(invalid("a value")),
    }
}
