//! The processes of a feed: started, killed and started again.

use super::display::Seen;
use super::nats::{Nats, STREAM};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use treefold::Client;
use treefold_cli::commands::connect;
use treefold_cli::exit::Failure;
use treefold_cli::fleet::Fleet;

/// Time between two attempts to start a part again whose predecessor has just died.
const RESTART_INTERVAL: Duration = Duration::from_millis(20);
/// Options with which one of three mirrors may be dead when another origin takes over.
const COPIES: [&str; 2] = ["--copies", "2"];
const STANDBY: [&str; 3] = ["--standby", "--silence", "1500ms"];
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);

/// A part of the feed that can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Origin,
    Mirror(usize),
    Display(usize),
    Nats,
}

impl Part {
    /// True if both are of one kind.
    pub(super) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// How a feed goes on when its origin dies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Succession {
    /// The origin starts again with its journal, which is forced to the disk by this policy.
    Journal(String),
    /// Another origin takes over from the mirrors.
    Standby,
    /// Another origin begins a new feed.
    Nothing,
}

/// The process of a display.
struct Display {
    child: Child,
    /// Reads its lines until it has ended.
    reading: JoinHandle<()>,
}

/// A feed, its mirrors and displays.
pub(super) struct Feed {
    mirrors: Fleet,
    origin: Child,
    displays: Vec<Display>,
    seen: Vec<Seen>,
    source_addr: SocketAddr,
    /// The server with the events, if they come from JetStream.
    nats: Option<Nats>,
    succession: Succession,
    /// Origins that were started.
    origins: u32,
    directory: TempDir,
}

impl Feed {
    /// Starts all processes.
    pub(super) async fn start(
        mirrors: u32,
        displays: u32,
        succession: Succession,
        rules: &str,
        nats: Option<Nats>,
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("can't prepare the feed: {error}"));
        let directory = tempfile::tempdir().map_err(failed)?;
        std::fs::write(directory.path().join("rules.toml"), rules).map_err(failed)?;
        let serve = |mirror| {
            let promises = directory.path().join(format!("promises-{mirror}"));
            format!("mirror=flights:partitions={mirror}/{mirrors}:promises={}", promises.display())
        };
        let told = (0..mirrors).map(|mirror| vec!["--serve".to_owned(), serve(mirror)]).collect();
        let fleet = Fleet::start_told(told).await?;
        fleet.meet().await?;
        // A free port, which the origin keeps over its lives.
        let source_addr =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(failed)?;
        let origin = start_origin(&fleet, &directory, &source(source_addr, nats.as_ref()), &succession, 1)?;
        let mut feed = Self {
            mirrors: fleet,
            origin,
            displays: Vec::new(),
            seen: (0..displays).map(|_| Seen::default()).collect(),
            source_addr,
            nats,
            succession,
            origins: 1,
            directory,
        };
        for display in 0..displays as usize {
            let started = feed.start_display(display)?;
            feed.displays.push(started);
        }
        Ok(feed)
    }

    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        connect(&self.addrs(), true, self.mirrors.cluster()).await
    }

    fn addrs(&self) -> Vec<String> {
        (0..self.mirrors.size()).map(|at| self.mirrors.addr(at).to_owned()).collect()
    }

    pub(super) fn source_addr(&self) -> SocketAddr {
        self.source_addr
    }

    /// The address of the server with the events.
    pub(super) fn nats_addr(&self) -> Option<String> {
        self.nats.as_ref().map(Nats::addr)
    }

    pub(super) fn displays(&self) -> &[Seen] {
        &self.seen
    }

    /// Kills a part; its process has ended when this returns.
    pub(super) async fn kill(&mut self, part: Part) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("can't kill {part:?}: {error}"));
        let child = match part {
            Part::Mirror(at) => return self.mirrors.kill(at).await,
            Part::Nats => {
                let nats = self.nats.as_mut().expect("invariant: only a server that was started is chosen");
                return nats.kill().await.map_err(failed);
            }
            Part::Origin => &mut self.origin,
            Part::Display(at) => &mut self.displays[at].child,
        };
        child.kill().await.map_err(failed)?;
        if let Part::Display(at) = part {
            // The next process resumes behind all that this one has printed.
            let read = (&mut self.displays[at].reading).await;
            read.map_err(|error| Failure::failed(format!("can't read {part:?}: {error}")))?;
        }
        Ok(())
    }

    /// Starts a killed part again.
    pub(super) async fn restart(&mut self, part: Part) -> Result<(), Failure> {
        match part {
            Part::Mirror(at) => self.mirrors.restart(at).await?,
            Part::Nats => {
                let nats = self.nats.as_mut().expect("invariant: only a server that was started is chosen");
                nats.restart().await?;
            }
            Part::Origin => {
                let give_up_at = Instant::now() + RESTART_TIMEOUT;
                // A node may still be told of the connection that broke.
                loop {
                    self.origins += 1;
                    let (directory, succession) = (&self.directory, &self.succession);
                    let source = source(self.source_addr, self.nats.as_ref());
                    self.origin = start_origin(&self.mirrors, directory, &source, succession, self.origins)?;
                    tokio::time::sleep(RESTART_INTERVAL).await;
                    let ended = self.origin.try_wait().map_err(|error| Failure::failed(error.to_string()))?;
                    match ended {
                        None => break,
                        Some(status) if Instant::now() > give_up_at => {
                            return Err(Failure::failed(format!("the origin does not start: {status}")));
                        }
                        Some(_) => {}
                    }
                }
            }
            Part::Display(at) => self.displays[at] = self.start_display(at)?,
        }
        Ok(())
    }

    fn start_display(&self, at: usize) -> Result<Display, Failure> {
        let seen = self.seen[at].clone();
        let mut words = vec!["mirror".to_owned(), "watch".to_owned(), "flights".to_owned()];
        words.extend(["--timeout", "60s", "-o", "json"].map(str::to_owned));
        if let Some(from) = seen.from() {
            words.extend(["--from".to_owned(), from]);
        }
        let mut child = spawn(&self.mirrors, &words, Stdio::piped())?;
        let lines = child.stdout.take().expect("invariant: its standard output is a pipe");
        let reading = tokio::spawn(async move {
            let (mut lines, mut line) = (BufReader::new(lines), String::new());
            // The last line of a killed display may be cut; it has not been seen.
            while lines.read_line(&mut line).await.is_ok() && line.ends_with('\n') {
                seen.take(line.trim_end());
                line.clear();
            }
        });
        Ok(Display { child, reading })
    }

    /// Ends all processes and waits until they are gone.
    pub(super) async fn end(mut self) {
        let displays = self.displays.iter_mut().map(|display| &mut display.child);
        for child in displays.chain([&mut self.origin]) {
            // An error means that the process is dead already.
            let _ = child.kill().await;
        }
        self.mirrors.end().await;
    }
}

/// The source of the origin's events.
fn source(addr: SocketAddr, nats: Option<&Nats>) -> String {
    nats.map_or_else(|| format!("tcp:{addr}"), |nats| format!("jetstream:{}/{STREAM}", nats.addr()))
}

fn start_origin(
    mirrors: &Fleet,
    directory: &TempDir,
    source: &str,
    succession: &Succession,
    epoch: u32,
) -> Result<Child, Failure> {
    let file = |name: &str| directory.path().join(name).display().to_string();
    let mut words = vec!["mirror".to_owned(), "feed".to_owned(), "flights".to_owned()];
    words.extend([source.to_owned(), "--rules".to_owned(), file("rules.toml")]);
    let more: Vec<String> = match succession {
        // Without a journal nobody else tells the origin its epoch.
        Succession::Nothing => vec!["--epoch".to_owned(), epoch.to_string()],
        Succession::Journal(sync) => {
            vec!["--journal".to_owned(), file("journal"), "--sync".to_owned(), sync.clone()]
        }
        Succession::Standby if epoch == 1 => COPIES.map(str::to_owned).to_vec(),
        Succession::Standby => [&COPIES[..], &STANDBY].concat().into_iter().map(str::to_owned).collect(),
    };
    words.extend(more);
    spawn(mirrors, &words, Stdio::null())
}

/// Starts a command of this program, which asks the mirrors.
fn spawn(mirrors: &Fleet, words: &[String], stdout: Stdio) -> Result<Child, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("can't start {}: {error}", words[1]));
    let addrs: Vec<&str> = (0..mirrors.size()).map(|at| mirrors.addr(at)).collect();
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(words).args(["--at", &addrs.join(","), "--cluster", mirrors.cluster()]);
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().map_err(failed)
}
