//! Readers that stand still: idle ones, for their memory, and ones that stop reading.

use crate::Problem;
use crate::feed::{FEED, connect};
use crate::system::SystemArgs;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use treefold_bench_down::part::{serve, unknown};
use treefold_feed::{Reader, Update};

/// The way by which a reader follows its mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// The library, over a stream.
    Library,
    /// HTTP, lines of JSON.
    Lines,
    /// HTTP, server-sent events.
    Sent,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Lines => "lines",
            Self::Sent => "sent",
        }
    }
}

/// The experience of readers that stopped for a while.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Readers that were told that they lag, or got a new snapshot with the reason.
    pub(crate) lagged: u64,
    /// Readers that were cut off.
    pub(crate) cut_off: u64,
    /// Readers that then had a complete snapshot again.
    pub(crate) complete: u64,
}

/// Readers that have their snapshots.
struct Held {
    runtime: Runtime,
    library: Vec<Reader>,
    http: Vec<BufReader<TcpStream>>,
}

/// Runs readers: `ready` when all have their snapshots, `read` when they shall read again until they are told something.
///
/// With `has_key`, each wants a key of its own, so that its snapshot costs nothing.
pub(crate) fn run(args: &SystemArgs, way: Way, count: usize, has_key: bool) -> Result<(), Problem> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut held = Held { runtime, library: Vec::new(), http: Vec::new() };
    match way {
        Way::Library => held.library = held.runtime.block_on(open_library(&args.at, count, has_key))?,
        Way::Lines | Way::Sent => {
            let addr = args.http.as_deref().ok_or("no address for HTTP")?;
            for number in 0..count {
                held.http.push(open_http(addr, way, has_key.then_some(number))?);
            }
        }
    }
    serve(&json!({}), |words| match *words {
        ["read"] => Ok(serde_json::to_value(read_on(&mut held)?)?),
        _ => unknown(words),
    })
}

async fn open_library(at: &str, count: usize, has_key: bool) -> Result<Vec<Reader>, Problem> {
    let client = connect(at).await?;
    let mut readers = Vec::new();
    for number in 0..count {
        let builder = Reader::connect(&client, FEED);
        let builder = if has_key { builder.key(format!("k{number:06}")) } else { builder };
        let mut reader = builder.start().await?;
        while !matches!(reader.next().await?, Update::Complete(_)) {}
        readers.push(reader);
    }
    Ok(readers)
}

fn open_http(addr: &str, way: Way, key: Option<usize>) -> Result<BufReader<TcpStream>, Problem> {
    let mut stream = TcpStream::connect(addr)?;
    let accept = if way == Way::Sent { "accept: text/event-stream\r\n" } else { "" };
    let query = key.map_or(String::new(), |key| format!("?key=k{key:06}"));
    write!(stream, "GET /v1/feeds/{FEED}/events{query} HTTP/1.1\r\nhost: localhost\r\n{accept}\r\n")?;
    // A small buffer, so that idle readers cost little here.
    let mut lines = BufReader::with_capacity(4_096, stream);
    if !read_until(&mut lines, "complete")? {
        return Err("the listener closed the connection".into());
    }
    Ok(lines)
}

/// Reads up to a message. Returns false if the connection was closed before.
fn read_until(lines: &mut BufReader<TcpStream>, name: &str) -> Result<bool, Problem> {
    let (of_lines, of_events) = (format!("{{\"{name}\""), format!("event: {name}"));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
        if line.starts_with(of_lines.as_bytes()) || line.starts_with(of_events.as_bytes()) {
            return Ok(true);
        }
    }
}

/// Lets all readers read until each knows that it lagged, and has a snapshot again.
fn read_on(held: &mut Held) -> Result<Told, Problem> {
    let mut told = Told::default();
    let library = &mut held.library;
    held.runtime.block_on(async {
        for reader in library {
            let mut is_told = false;
            loop {
                match reader.next().await? {
                    Update::Lagging(_) => is_told = true,
                    Update::Begins(begins) => is_told |= begins.because.is_some(),
                    Update::Complete(_) if is_told => break,
                    _ => {}
                }
            }
            told.lagged += 1;
            told.complete += 1;
        }
        Ok::<_, Problem>(())
    })?;
    for lines in &mut held.http {
        if !read_until(lines, "lagging")? {
            told.cut_off += 1;
            continue;
        }
        told.lagged += 1;
        told.complete += u64::from(read_until(lines, "complete")?);
    }
    Ok(told)
}
