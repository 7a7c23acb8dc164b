//! Measures the readers of one mirror: `readers server [KEYS]` runs a mirror with an origin, and prints its addresses and
//! its memory when asked by a line on standard input; `readers library ADDR N` and `readers http ADDR N` are N idle
//! readers, and `readers join ADDR N` has N readers join at once, over streams.
//!
//! bench/readers.sh runs all of it.

use std::io::BufRead;
use std::time::{Duration, Instant};
use treefold::{Client, Node};
use treefold_feed::{HttpOptions, MirrorOptions, Origin, OriginOptions, Reader, Update, mirror};
use treefold_mirror::rules::RuleFile;
use treefold_mirror::{Event, MirrorLimits};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args[..] {
        ["server", keys] => runtime.block_on(server(keys.parse()?)),
        ["library", addr, count] => runtime.block_on(idle(addr, count.parse()?)),
        ["http", addr, count] => http(addr, count.parse()?),
        ["join", addr, count] => runtime.block_on(join(addr, count.parse()?)),
        _ => Err("server KEYS | library ADDR N | http ADDR N | join ADDR N".into()),
    }
}

/// Resident memory of this process in bytes.
fn resident() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1_024)
}

async fn server(keys: u64) -> Result<(), Failure> {
    let (service, unstarted) = mirror(MirrorOptions::new("flights", 0, 1));
    let node = Node::builder().service(service).start().await?;
    let mirror = unstarted.start(node.client());
    let listener = mirror.listen(HttpOptions::new("127.0.0.1:0".parse()?)).await?;
    let before = resident()?;
    let origin = Origin::start(&node.client(), "flights", OriginOptions::new(RuleFile::default())).await?;
    for number in 1..=keys {
        let json = format!(
            r#"{{"stream":"faa","number":{number},"key":"DL{number}","type":"position","fields":{{"lat":28.0661,"lon":-101.1356,"altitude_ft":33033,"speed_kt":449}}}}"#
        );
        let event = Event::from_json(&json, None, &MirrorLimits::DEFAULT)?;
        while origin.offer(event.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    while mirror.cut().position < keys || !mirror.is_current() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{} {} {}", node.addr(), listener.addr(), (resident()? - before) / keys.max(1));
    let (asked, mut asks) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines() {
            if asked.blocking_send(()).is_err() {
                return;
            }
        }
    });
    while asks.recv().await.is_some() {
        println!("{} {}", resident()?, mirror.readers());
    }
    Ok(())
}

async fn client(addr: &str) -> Result<Client, Failure> {
    Ok(Client::builder().at([addr]).direct(true).connect().await?)
}

/// Readers of one key each, so that their snapshots cost nothing.
async fn idle(addr: &str, count: usize) -> Result<(), Failure> {
    let client = client(addr).await?;
    let before = resident()?;
    let mut tasks = Vec::new();
    for number in 1..=count {
        let mut reader = Reader::connect(&client, "flights").key(format!("DL{number}")).start().await?;
        while !matches!(reader.next().await?, Update::Complete(_)) {}
        tasks.push(tokio::spawn(async move { while reader.next().await.is_ok() {} }));
    }
    println!("{}", (resident()? - before) / count as u64);
    std::future::pending().await
}

fn http(addr: &str, count: usize) -> Result<(), Failure> {
    use std::io::{Read, Write};
    let mut streams = Vec::new();
    for number in 1..=count {
        let mut stream = std::net::TcpStream::connect(addr)?;
        write!(stream, "GET /v1/feeds/flights/events?key=DL{number} HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        let (mut text, mut buffer) = (Vec::new(), [0; 4_096]);
        while !text.windows(8).any(|part| part == b"complete") {
            let read = stream.read(&mut buffer)?;
            text.extend_from_slice(&buffer[..read]);
        }
        streams.push(stream);
    }
    println!("ready");
    loop {
        std::thread::park();
    }
}

async fn join(addr: &str, count: usize) -> Result<(), Failure> {
    let client = client(addr).await?;
    let began = Instant::now();
    let joiners: Vec<_> = (0..count)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let Ok(mut reader) = Reader::connect(&client, "flights").start().await else { return (0, 0) };
                let mut rows = 0;
                loop {
                    match reader.next().await {
                        Ok(Update::Row(_)) => rows += 1,
                        Ok(Update::Complete(_)) => return (rows, began.elapsed().as_micros()),
                        Ok(_) => {}
                        Err(_) => return (rows, 0),
                    }
                }
            })
        })
        .collect();
    let mut times = Vec::new();
    let mut rows = 0;
    for joiner in joiners {
        let (taken, micros) = joiner.await?;
        rows += taken;
        times.push(micros);
    }
    times.sort_unstable();
    let [median, last] = [times[times.len() / 2], times[times.len() - 1]].map(|micros| micros as f64 / 1e3);
    println!("{rows} rows; half of the readers after {median:.1} ms, all after {last:.1} ms");
    Ok(())
}
