//! The other processes of the measurement: this program, run again.

use crate::Failure;
use crate::partials::{Kind, Ready, service};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use treefold::Node;

/// The environment variable that contains the role of a process.
const PART: &str = "TREEFOLD_BENCH_RELAY";
/// Bytes of one read of a sink, and the whole buffer of a plain one.
pub(crate) const BLOCK: usize = 256 << 10;

/// The unit of times in /proc, on every Linux that has it (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// The role of a process, until its standard input is closed.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Fold partials.
    Relay { leaves: u32 },
    /// Answer with partials of `bytes` bytes.
    Leaf { at: u32, leaves: u32, bytes: usize, join: String },
    /// Receive and count bytes. Keeps the last `keeps` bytes of each connection.
    Sink { keeps: usize },
    /// Write the same bytes to a sink repeatedly.
    Writer { bytes: usize, to: String },
}

impl Part {
    /// Reads the role from the environment; `None` in the measuring process.
    pub(crate) fn of_environment() -> Option<Self> {
        let text = std::env::var(PART).ok()?;
        let words: Vec<&str> = text.split(' ').collect();
        Some(match words[..] {
            ["relay", leaves] => Self::Relay { leaves: leaves.parse().ok()? },
            ["leaf", at, leaves, bytes, join] => Self::Leaf {
                at: at.parse().ok()?,
                leaves: leaves.parse().ok()?,
                bytes: bytes.parse().ok()?,
                join: join.to_owned(),
            },
            ["sink", keeps] => Self::Sink { keeps: keeps.parse().ok()? },
            ["writer", bytes, to] => Self::Writer { bytes: bytes.parse().ok()?, to: to.to_owned() },
            _ => return None,
        })
    }

    fn words(&self) -> String {
        match self {
            Self::Relay { leaves } => format!("relay {leaves}"),
            Self::Leaf { at, leaves, bytes, join } => format!("leaf {at} {leaves} {bytes} {join}"),
            Self::Sink { keeps } => format!("sink {keeps}"),
            Self::Writer { bytes, to } => format!("writer {bytes} {to}"),
        }
    }

    /// Runs the role. The first line on standard output is its listening address.
    pub(crate) fn play(self) -> Result<(), Failure> {
        match self {
            Self::Relay { leaves } => serve(Node::builder().relay().workers(1).service(service(leaves))),
            Self::Leaf { at, leaves, bytes, join } => {
                let ready = Ready(Kind::ALL.map(|kind| kind.partial(bytes, at)).into());
                let service = service(leaves).partition(at, ready);
                serve(Node::builder().join([join]).workers(1).processors(1).service(service))
            }
            Self::Sink { keeps } => sink(keeps),
            Self::Writer { bytes, to } => write_to(&to, bytes),
        }
    }
}

fn until_let_go() -> std::io::Result<()> {
    std::io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

/// Runs a node on the program's first thread, as `treefold node` does.
fn serve(node: treefold::NodeBuilder) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let node = node.start().await?;
        println!("{}", node.addr());
        tokio::task::spawn_blocking(until_let_go).await??;
        Ok(())
    })
}

/// Receives bytes from all connections, with a thread for each, and prints their number for each line of
/// input.
fn sink(keeps: usize) -> Result<(), Failure> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static BYTES: AtomicU64 = AtomicU64::new(0);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let (mut connection, mut kept, mut at) = (connection, vec![0; keeps], 0);
                while let Ok(read @ 1..) = connection.read(&mut kept[at..keeps.min(at + BLOCK)]) {
                    BYTES.fetch_add(read as u64, Ordering::Relaxed);
                    at = (at + read) % keeps;
                }
            });
        }
    });
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", BYTES.load(Ordering::Relaxed));
    }
    Ok(())
}

fn write_to(to: &str, bytes: usize) -> Result<(), Failure> {
    let (mut connection, written) = (TcpStream::connect(to)?, vec![7; bytes]);
    println!("{to}");
    std::thread::spawn(move || while connection.write_all(&written).is_ok() {});
    Ok(until_let_go()?)
}

/// A process with a role, which ends when this is dropped.
pub(crate) struct Played {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<std::process::ChildStdout>,
    pub(crate) addr: String,
}

impl Played {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(part: &Part) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(PART, part.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut addr = String::new();
        stdout.read_line(&mut addr)?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let played = Self { child, stdin, stdout, addr: addr.trim().to_owned() };
        if played.addr.is_empty() { Err("a process ended before it was ready".into()) } else { Ok(played) }
    }

    /// Returns the processor seconds that it has used.
    pub(crate) fn processor_seconds(&self) -> Result<f64, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The command's name is in parentheses. Behind it, utime and stime are the twelfth and the thirteenth
        // field.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let ticks = fields.skip(11).take(2).map(str::parse::<u32>).sum::<Result<u32, _>>()?;
        Ok(f64::from(ticks) / TICKS_PER_SECOND)
    }

    /// Asks a sink for the number of bytes received.
    pub(crate) fn bytes(&mut self) -> Result<u64, Failure> {
        writeln!(self.stdin, "how many?")?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        // If it has ended already, these calls fail harmlessly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
