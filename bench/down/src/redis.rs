//! Redis PUBLISH with a bare client: one connection, pipelined commands, no client library.
//!
//! The publisher keeps a bounded number of commands without a reply, as a stream's window bounds its packets. The
//! server's limits on what it keeps for a subscriber are off, so that it never drops one.

use crate::endpoint::due_ns;
use crate::pace::Pace;
use crate::peer::{Counter, Peer};
use crate::trial::{Fault, Problem, TrialArgs};
use clap::Args;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Commands are written together up to this many bytes.
const BATCH_BYTES: usize = 64 << 10;
/// Size of a subscriber's buffer.
const READ_BYTES: usize = 256 << 10;
const START_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct SubscriberArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    bytes: usize,
    #[arg(long, default_value_t = 0)]
    slow_us: u64,
}

/// A server, and its subscribers.
#[derive(Debug)]
pub(crate) struct Redis {
    server: Child,
    port: u16,
    pub(crate) peers: Vec<Peer>,
    _folder: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start(args: &TrialArgs) -> Result<Self, Problem> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--client-output-buffer-limit", "pubsub 0 0 0"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()?;
        let mut redis = Self { server, port, peers: Vec::new(), _folder: folder };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if began.elapsed() > START_TIMEOUT {
                return Err("redis-server did not start".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        for number in 0..args.endpoints {
            let words = ["redis-subscriber", "--port", &port.to_string(), "--bytes", &args.bytes.to_string()];
            let mut words: Vec<String> = words.iter().map(ToString::to_string).collect();
            if number == 0 && args.load.fault == Fault::Slow {
                words.extend(["--slow-us".to_owned(), args.load.slow_us.to_string()]);
            }
            redis.peers.push(Peer::start(&words)?);
        }
        redis.await_subscribers(args.endpoints)?;
        Ok(redis)
    }

    pub(crate) fn server_id(&self) -> u32 {
        self.server.id()
    }

    fn await_subscribers(&self, wanted: u32) -> Result<(), Problem> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let mut replies = BufReader::new(stream.try_clone()?);
        let began = Instant::now();
        while began.elapsed() < START_TIMEOUT {
            stream.write_all(b"PUBLISH c warm\r\n")?;
            let mut reply = String::new();
            replies.read_line(&mut reply)?;
            if reply.trim_start_matches(':').trim() == wanted.to_string() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the subscribers did not subscribe".into())
    }

    /// Publishes in a thread of its own until `stop` is set.
    pub(crate) fn send(
        &self,
        args: &TrialArgs,
        stop: &Arc<AtomicBool>,
    ) -> Result<JoinHandle<Result<(), String>>, Problem> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        let (stop, bytes, rate) = (Arc::clone(stop), args.bytes as usize, args.load.rate);
        let open_max = (args.load.window_bytes as usize / (64 + bytes)).max(1);
        Ok(std::thread::spawn(move || {
            publish(&stream, bytes, open_max, &mut Pace::new(rate, &stop)).map_err(|error| error.to_string())
        }))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It holds nothing that must survive.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn publish(
    mut stream: &TcpStream,
    bytes: usize,
    open_max: usize,
    pace: &mut Pace<'_>,
) -> std::io::Result<()> {
    let mut replies = stream.try_clone()?;
    let mut scrap = vec![0; READ_BYTES];
    let head = format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n${bytes}\r\n");
    let (mut batch, mut open) = (Vec::with_capacity(2 * BATCH_BYTES), 0_usize);
    let mut payload = vec![0; bytes];
    loop {
        let mut written = Ok(());
        let due_ns = pace.next(|| {
            if !batch.is_empty() {
                written = stream.write_all(&batch);
                batch.clear();
            }
        });
        written?;
        let Some(due_ns) = due_ns else { return Ok(()) };
        payload[..8].copy_from_slice(&due_ns.to_le_bytes());
        batch.extend_from_slice(head.as_bytes());
        batch.extend_from_slice(&payload);
        batch.extend_from_slice(b"\r\n");
        open += 1;
        if batch.len() >= BATCH_BYTES || open >= open_max {
            stream.write_all(&batch)?;
            batch.clear();
        }
        while open >= open_max {
            let read = replies.read(&mut scrap)?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            // A reply is one line.
            open -= scrap[..read].iter().filter(|&&byte| byte == b'\n').count().min(open);
        }
    }
}

/// Counts the messages of a channel. All messages have one length, so it need not parse them.
pub(crate) fn subscribe(args: &SubscriberArgs) -> Result<(), Problem> {
    let mut stream = TcpStream::connect(("127.0.0.1", args.port))?;
    stream.write_all(b"SUBSCRIBE c\r\n")?;
    let counter = Arc::new(Counter::default());
    let (counting, bytes, pause) = (Arc::clone(&counter), args.bytes, Duration::from_micros(args.slow_us));
    std::thread::spawn(move || {
        if let Err(error) = count_all(stream, bytes, pause, &counting)
            && error.kind() != std::io::ErrorKind::UnexpectedEof
        {
            eprintln!("bench-down: the subscriber ended: {error}");
        }
    });
    counter.serve()
}

fn count_all(mut stream: TcpStream, bytes: usize, pause: Duration, counter: &Counter) -> std::io::Result<()> {
    let head = format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${bytes}\r\n");
    let (mut buffer, mut filled) = (vec![0; READ_BYTES + 2 * bytes], 0);
    let mut is_warm = false;
    loop {
        let read = stream.read(&mut buffer[filled..])?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        let mut at = 0;
        if !is_warm {
            // The answer to SUBSCRIBE, and the messages of the warm-up, which have another length.
            let found = buffer[..filled].windows(head.len()).position(|window| window == head.as_bytes());
            let Some(found) = found else { continue };
            (at, is_warm) = (found, true);
        }
        let whole = head.len() + bytes + 2;
        let count = (filled - at) / whole;
        for number in 0..count {
            let message = &buffer[at + number * whole..];
            if !message.starts_with(head.as_bytes()) {
                return Err(std::io::Error::other("a message of another form"));
            }
            if !pause.is_zero() {
                std::thread::sleep(pause);
                counter.note(std::iter::once(due_ns(&message[head.len()..])));
            }
        }
        if pause.is_zero() {
            counter.note((0..count).map(|number| due_ns(&buffer[at + number * whole + head.len()..])));
        }
        at += count * whole;
        buffer.copy_within(at..filled, 0);
        filled -= at;
    }
}
