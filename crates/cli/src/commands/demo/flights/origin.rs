//! The origin's process: `treefold mirror feed` with a journal, and a TCP source at a port that it keeps over its lives.

use super::news::News;
use super::{FEED, RULES};
use crate::commands::mirror::report::StateLine;
use crate::exit::Failure;
use crate::fleet::die_with_parent;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc;

/// Interval of the origin's reports.
const REPORT_EVERY: &str = "200ms";

/// How to start the origin.
pub(super) struct Recipe {
    words: Vec<String>,
    log: File,
    source: SocketAddr,
}

/// The running origin.
pub(super) struct OriginProcess {
    child: Child,
    id: u32,
}

impl Recipe {
    /// Writes the rules into `directory`, which also gets the journal.
    pub(super) fn new(directory: &Path, at: &[String], cluster: &str, log: File) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("can't prepare the origin: {error}"));
        let file = |name: &str| directory.join(name).display().to_string();
        std::fs::write(directory.join("rules.toml"), RULES).map_err(failed)?;
        // A free port; the source asks for it again and again while the origin is away.
        let source = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(failed)?;
        let mut words = ["mirror", "feed", FEED].map(str::to_owned).to_vec();
        words.extend([format!("tcp:{source}"), "--rules".to_owned(), file("rules.toml")]);
        words.extend(["--journal".to_owned(), file("journal"), "--at".to_owned(), at.join(",")]);
        words.extend(["--cluster", cluster, "--report", REPORT_EVERY, "-o", "json"].map(str::to_owned));
        Ok(Self { words, log, source })
    }

    /// The address at which the origin takes events.
    pub(super) fn source(&self) -> SocketAddr {
        self.source
    }

    /// Starts the origin. Its reports go to `news`.
    pub(super) fn start(&self, news: &mpsc::Sender<News>) -> Result<OriginProcess, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("can't start the origin: {error}"));
        let mut command = Command::new(crate::own_program().map_err(failed)?);
        command.args(&self.words).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(self.log.try_clone().map_err(failed)?).kill_on_drop(true);
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take().expect("invariant: its standard output is a pipe");
        tokio::spawn(pass_on(stdout, news.clone()));
        let id = child.id().expect("invariant: it was not waited for");
        Ok(OriginProcess { child, id })
    }
}

/// Passes the reports of an origin on until it has ended.
async fn pass_on(stdout: ChildStdout, news: mpsc::Sender<News>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // Its last line, the result, is no state.
        if let Ok(StateLine { state }) = serde_json::from_str(&line)
            && news.send(News::Origin(state)).await.is_err()
        {
            return;
        }
    }
}

impl OriginProcess {
    /// The process.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Kills it (`kill -9`); it has ended when this returns.
    pub(super) async fn kill(&mut self) {
        // An error means that the process is dead already.
        let _ = self.child.kill().await;
    }

    /// Waits for its end. Cancel safe.
    pub(super) async fn ended(&mut self) -> bool {
        self.child.wait().await.is_ok_and(|status| status.success())
    }
}
