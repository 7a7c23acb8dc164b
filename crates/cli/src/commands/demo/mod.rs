//! `treefold demo`: a search service over a folder of this machine, on a cluster in one process that users
//! can break.
//!
//! The indexes on disk, the nodes with their sockets on loopback, and the trees of each call are all real.
//! The nodes share one process only so that one command can start them and `:kill 2` can end one.
//!
//! - [`corpus`]: the default folder.
//! - [`mod@line`]: the accepted lines; [`input`]: where they come from (a terminal, a pipe, or the samples).
//! - [`nodes`]: the cluster and the faults that users set; [`session`]: executes a line.
//! - [`show`]: the printed results. [`page`]: the same cluster in a browser.
//! - [`flights`]: the other demo, of mirrors.

mod corpus;
#[cfg(feature = "mirrors")]
mod flights;
mod input;
mod line;
mod nodes;
mod page;
mod session;
mod show;

use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::{Format, print, short};
use crate::parse;
use crate::serve::Corpus;
use clap::Args;
use input::Lines;
use nodes::Nodes;
use session::{Next, Session, Settings};
use std::path::PathBuf;
use std::time::Duration;
use treefold_search::{Bar, Report};

/// Search the files of this machine over a small cluster, and break it; or with --flights, show live mirrors
///
/// Indexes the text files below DIR (including source code and Markdown), split into partitions. Starts NODES
/// nodes in this process and puts each partition on REPLICAS of them. Then answers queries: each query is a
/// call that reaches every partition over a tree formed for it.
///
/// With --query it answers and exits. On a terminal it then takes queries and commands, so that you can watch
/// how coverage and tree react to failures; :help lists the commands. From a pipe it takes the same lines and
/// gives one answer each. If there is no input, it answers a few samples. The page at the printed URL shows the
/// same cluster in a browser, and searches it.
///
/// With --flights it instead starts three mirrors and the origin of a feed of flights, each a process of its own, and
/// shows a board of the flights that reads from one of the mirrors. Keys kill, stop and start each process; ? lists
/// them. With --seconds, with -o json, or without a terminal, it runs a scripted scenario and prints lines.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    #[cfg(feature = "mirrors")]
    #[command(flatten)]
    flights: flights::FlightsDemo,

    /// Folder to search [default: the sources that cargo has downloaded, or /usr/share/doc]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,

    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=256))]
    nodes: u16,

    /// Number of partitions that the folder is split into
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=4096))]
    partitions: u32,

    /// Number of nodes that host each partition
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    replicas: u16,

    /// Query to answer before exiting; may be repeated
    #[arg(long, value_name = "TEXT")]
    query: Vec<String>,

    /// Address of the page that shows the cluster in a browser
    /// [default: 127.0.0.1:7780, or a free port if it is taken; none with --query or -o json]
    #[arg(long, value_name = "ADDR")]
    gateway: Option<String>,

    /// Deadline of each answer, with its unit: 200ms, 1.5s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse::deadline, allow_hyphen_values = true)]
    deadline: Duration,

    /// Minimum coverage: the least share of partitions that makes an answer, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = parse::min_coverage, allow_hyphen_values = true)]
    min_coverage: f64,

    /// Folder of the index [default: below $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Largest number of files to index [default: 4000 of the default folder, all of --path]
    #[arg(long, value_name = "N")]
    limit_files: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  treefold demo
  treefold demo --path ~/src --query 'binary heap' --query 'title:readme'
  echo 'lock free queue' | treefold demo --nodes 12 --partitions 48 -o json
  treefold demo --flights
  treefold demo --flights --seconds 10 -o json
  printf ':kill 1\\n:kill 2\\nbinary heap\\n:tree\\n' | treefold demo";

/// Files of the default folder that are indexed: the first answer is there seconds after the build.
const DEFAULT_FILES: u64 = 4_000;

/// Queries that are answered if there is no input.
const SAMPLES: [&str; 3] = ["work stealing scheduler", "\"lock free\" queue", "\"sift down\" heap"];

impl Demo {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        #[cfg(feature = "mirrors")]
        if self.flights.is_wanted() {
            return self.flights.run(format).await;
        }
        if self.replicas > self.nodes {
            let limit = format!("at most the number of nodes, {}", self.nodes);
            return Err(Failure::Rejected(treefold::CallError::bad_field("replicas", self.replicas, limit)));
        }
        let few = self.path.is_none().then_some(DEFAULT_FILES);
        let files_max = self.limit_files.or(few);
        let corpus = Corpus { folder: self.folder()?, data: self.data_dir.clone(), files_max };
        let report = index(corpus.clone(), self.partitions).await?;
        let style = Style::of_stdout();
        let settings = Settings { deadline: self.deadline, min_coverage: self.min_coverage, format, style };
        let nodes = Nodes::start(&report, usize::from(self.nodes), usize::from(self.replicas)).await?;
        if format == Format::Text {
            print(indexed_line(&corpus, &report, style));
            print(nodes.started_line());
        }
        let is_page_wanted = self.query.is_empty() && format == Format::Text;
        let gateway = if self.gateway.is_some() || is_page_wanted {
            Some(page::start(nodes.client().await?, self.gateway.as_deref()).await?)
        } else {
            None
        };
        if let Some(gateway) = &gateway {
            say(format, &format!("page in a browser: {}", style.bold(gateway.url())));
        }
        let mut session = Session::new(nodes, settings).await?;
        let verdict = self.take_lines(&mut session).await;
        session.end().await;
        verdict
    }

    fn folder(&self) -> Result<PathBuf, Failure> {
        match &self.path {
            Some(path) if path.is_dir() => Ok(path.clone()),
            Some(path) => Err(Failure::failed(format!(
                "--path {}: no such folder; give an existing one",
                path.display()
            ))),
            None => corpus::default_folder(),
        }
    }

    /// Answers until the input ends.
    ///
    /// Returns the worst verdict, or the first failure.
    async fn take_lines(&self, session: &mut Session) -> Result<Verdict, Failure> {
        let mut lines =
            if self.query.is_empty() { Lines::of_stdin(&SAMPLES) } else { Lines::given(&self.query) };
        let mut worst = Verdict::Full;
        while let Some(line) = lines.next().await {
            let taken = session.take(&line).await;
            match taken {
                Ok(Next::GoOn(verdict)) => worst = worst.max(verdict),
                Ok(Next::Quit) => break,
                // A user at the terminal can type the next line.
                Err(failure) if lines.is_interactive() => crate::tell!("{failure}"),
                Err(failure) => return Err(failure),
            }
        }
        Ok(if lines.is_interactive() { Verdict::Full } else { worst })
    }
}

/// Prints what is no answer. If a script reads JSON answers, it goes to standard error instead.
fn say(format: Format, text: &str) {
    match format {
        Format::Text => print(text),
        Format::Json => crate::tell!("{text}"),
    }
}

/// Indexes outside the event loop, with a progress bar if standard error is a terminal.
async fn index(corpus: Corpus, partitions: u32) -> Result<Report, Failure> {
    let indexing = tokio::task::spawn_blocking(move || corpus.index(partitions, &Bar::new()));
    tokio::select! {
        report = indexing => report.expect("invariant: indexing does not panic").map_err(Failure::failed),
        _ = tokio::signal::ctrl_c() => Err(Failure::failed("stopped; the previous index is unchanged")),
    }
}

fn indexed_line(corpus: &Corpus, report: &Report, style: Style) -> String {
    let megabytes = report.bytes as f64 / 1e6;
    let skipped = report.skipped.total();
    let skipped = if skipped == 0 {
        String::new()
    } else {
        let s = &report.skipped;
        format!(
            "; left out {skipped} ({} binary, {} too large, {} unreadable, {} over the limit)",
            s.binary, s.too_large, s.unreadable, s.over_limit
        )
    };
    let how = if report.reused { "index reused, checked in" } else { "indexed in" };
    format!(
        "{}: {} text files, {megabytes:.0} MB in {} partitions, {how} {}{skipped}",
        style.bold(corpus.folder.display()),
        report.documents,
        report.partitions,
        short(report.elapsed)
    )
}
