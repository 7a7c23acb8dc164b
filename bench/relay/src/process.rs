//! The other processes of the measurement: this very program, run again.

use crate::Failure;
use crate::partials::{Kind, Ready, service};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use treefold::Node;

/// What a process that has a part finds in its environment.
const PART: &str = "TREEFOLD_BENCH_RELAY";
/// What a sink asks of the kernel at a time, and all that a plain one has for what it reads.
pub(crate) const BLOCK: usize = 256 << 10;

/// What /proc counts in, on every Linux that has it (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process is to do until nobody holds its standard input any more.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Fold.
    Relay { leaves: u32 },
    /// Answer with partials of so many bytes.
    Leaf { at: u32, leaves: u32, bytes: usize, join: String },
    /// Take whatever comes, and count it. What each connection brought last, so many bytes of it, stays.
    Sink { keeps: usize },
    /// Write the same bytes to a sink over and over.
    Writer { bytes: usize, to: String },
}

impl Part {
    /// `None` for the process that measures.
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

    /// Plays it. The first line of standard output says where it listens.
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

/// A node on the program's first thread, as `treefold node` has it.
fn serve(node: treefold::NodeBuilder) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let node = node.start().await?;
        println!("{}", node.addr());
        tokio::task::spawn_blocking(until_let_go).await??;
        Ok(())
    })
}

/// Takes whatever comes by any connection, a thread each, and says how many bytes came whenever it is asked.
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

/// A process that plays a part, and ends with this.
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

    /// Seconds of processor that it has used.
    pub(crate) fn processor_seconds(&self) -> Result<f64, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // Behind the command's name, which is in parentheses: utime and stime are the twelfth and the thirteenth.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let ticks = fields.skip(11).take(2).map(str::parse::<u32>).sum::<Result<u32, _>>()?;
        Ok(f64::from(ticks) / TICKS_PER_SECOND)
    }

    /// Asks a sink how many bytes have come.
    pub(crate) fn bytes(&mut self) -> Result<u64, Failure> {
        writeln!(self.stdin, "how many?")?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        // Dead already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
