//! A service of one's own as a program: nodes that count the lines of log files with a word, and a client.
//!
//! ```text
//! cargo run --example logs -- node --listen 127.0.0.1:7860 --partition 0/2 /var/log/dpkg.log
//! cargo run --example logs -- node --listen 127.0.0.1:7861 --partition 1/2 /etc/services --join 127.0.0.1:7860
//! cargo run --example logs -- ask tcp --at 127.0.0.1:7860
//! ```

use clap::{Args, Parser};
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use treefold::operators::merge::Count;
use treefold::operators::merging;
use treefold::{Client, Node, Partition, Service};

/// Counts lines over many machines
#[derive(Parser)]
enum Command {
    /// Hosts one partition: the lines of a file
    Node(HostArgs),
    /// Asks all partitions
    Ask(AskArgs),
}

#[derive(Args)]
struct HostArgs {
    /// File of the partition
    file: PathBuf,
    /// Number of the partition, and how many there are
    #[arg(long, value_name = "N/TOTAL", value_parser = partition)]
    partition: (u32, u32),
    /// Address to listen at
    #[arg(long, default_value = "127.0.0.1:7860")]
    listen: String,
    /// Nodes to join
    #[arg(long, value_delimiter = ',')]
    join: Vec<String>,
}

#[derive(Args)]
struct AskArgs {
    /// Word to look for
    word: String,
    /// Nodes to ask; the first that answers is taken
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1:7860")]
    at: Vec<String>,
}

fn partition(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once('/').and_then(|(n, total)| Some((n.parse().ok()?, total.parse().ok()?)));
    numbers.filter(|(n, total)| n < total).ok_or_else(|| format!("{text} is not N/TOTAL, as in 0/2"))
}

/// The service: the same code in every node, each with partitions of its own.
fn service(total: u32) -> Service {
    let matching = merging("matching", |partition: &Partition, word: &String| {
        let lines = partition.data_as::<Vec<String>>()?;
        Ok(Count(lines.iter().filter(|line| line.contains(word)).count() as u64))
    });
    Service::new("logs").aggregation("matching", matching).total(total)
}

async fn host(args: HostArgs) -> Result<(), Box<dyn Error>> {
    let (number, total) = args.partition;
    let lines: Vec<String> = std::fs::read_to_string(&args.file)?.lines().map(str::to_owned).collect();
    let service = service(total).partition(number, lines);
    let node = Node::builder().listen(args.listen).join(args.join).service(service).start().await?;
    println!("listening on {}", node.addr());
    tokio::signal::ctrl_c().await?;
    node.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

async fn ask(args: AskArgs) -> Result<(), Box<dyn Error>> {
    let client = Client::builder().at(args.at).connect().await?;
    let call = client.call::<Count>("logs/matching", &args.word);
    let reply = call.deadline(Duration::from_millis(500)).min_coverage(0.5).await?;
    for missing in &reply.missing {
        eprintln!("partitions {} are missing: {}", missing.partitions, missing.reason);
    }
    println!("coverage {:.2}", reply.coverage());
    println!("{} lines", reply.into_value()?.0);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    match Command::parse() {
        Command::Node(args) => host(args).await,
        Command::Ask(args) => ask(args).await,
    }
}
