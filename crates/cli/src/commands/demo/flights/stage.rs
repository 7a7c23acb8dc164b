//! The stage: owns the processes of the demo, and kills, stops and starts them on order.
//!
//! A killed origin returns by itself after a while, as if a supervisor started it again; a mirror stays dead until it is
//! started. Nothing outlives this process: the kernel kills the children with it.

use super::news::{Life, News, Order, Part};
use super::origin::{OriginProcess, Recipe};
use super::{FEED, MIRRORS, ORIGIN_RETURNS_AFTER};
use crate::commands::connect;
use crate::exit::Failure;
use crate::fleet::Fleet;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use treefold::Client;
use treefold_feed::MirrorStatus;

/// Time between two questions to the mirrors, and the time that they have to answer.
const STATUS_EVERY: Duration = Duration::from_millis(250);
const STATUS_WITHIN: Duration = Duration::from_millis(500);
/// Time that a mirror has to print where it listens for readers.
const URL_WITHIN: Duration = Duration::from_secs(10);
/// Interval at which processes that ended by themselves are noticed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Lines of the log that an error quotes.
const LOG_LINES: usize = 3;

/// The processes.
pub(super) struct Stage {
    mirrors: Fleet,
    lives: [Life; MIRRORS],
    recipe: Recipe,
    origin: Option<OriginProcess>,
    origin_returns_at: Option<Instant>,
    news: mpsc::Sender<News>,
    directory: TempDir,
}

impl Stage {
    /// Starts the mirrors, which then know each other. The origin is started by [`run`](Self::run).
    pub(super) async fn start(news: mpsc::Sender<News>) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("can't prepare the demo: {error}"));
        let directory = tempfile::Builder::new().prefix("treefold-flights-").tempdir().map_err(failed)?;
        let log = File::create(directory.path().join("log")).map_err(failed)?;
        let serve = |mirror| {
            let serve = format!("mirror={FEED}:partitions={mirror}/{MIRRORS}:http=127.0.0.1:0");
            ["--workers", "1", "--serve", &serve].map(str::to_owned).to_vec()
        };
        let told = (0..MIRRORS).map(serve).collect();
        let quoted = |failure: Failure| Failure::failed(format!("{failure}{}", last_lines(&directory)));
        let mut mirrors =
            Fleet::start_logged(told, log.try_clone().map_err(failed)?).await.map_err(quoted)?;
        mirrors.meet().await.map_err(quoted)?;
        for mirror in 0..MIRRORS {
            tell_url(&mut mirrors, mirror, &news).await;
        }
        let addrs = addrs(&mirrors);
        let recipe = Recipe::new(directory.path(), &addrs, mirrors.cluster(), log)?;
        let lives = [Life::Alive; MIRRORS];
        Ok(Self { mirrors, lives, recipe, origin: None, origin_returns_at: None, news, directory })
    }

    /// Addresses of the mirrors' nodes.
    pub(super) fn addrs(&self) -> Vec<String> {
        addrs(&self.mirrors)
    }

    /// The name of the cluster.
    pub(super) fn cluster(&self) -> String {
        self.mirrors.cluster().to_owned()
    }

    /// The address at which the origin takes events.
    pub(super) fn source(&self) -> SocketAddr {
        self.recipe.source()
    }

    /// A client that knows all mirrors, so that it survives the death of any one.
    pub(super) async fn client(&self) -> Result<Client, Failure> {
        connect(&self.addrs(), true, self.mirrors.cluster()).await
    }

    /// Starts the origin, and carries out orders until there are no further ones.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) -> Self {
        for mirror in 0..MIRRORS {
            self.tell(Part::Mirror(mirror), Life::Alive).await;
        }
        self.start_origin().await;
        loop {
            let returns_at = self.origin_returns_at;
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.carry_out(order).await,
                    None => return self,
                },
                _ = ended(&mut self.origin) => {
                    self.problem(format!("the origin has ended by itself{}", last_lines(&self.directory))).await;
                    self.origin_is_gone().await;
                }
                () = sleep_until(returns_at.unwrap_or_else(Instant::now)), if returns_at.is_some() => {
                    self.start_origin().await;
                }
                () = sleep(LOOK_EVERY) => self.look().await,
            }
        }
    }

    async fn carry_out(&mut self, order: Order) {
        match order {
            Order::Kill(Part::Origin) => {
                if let Some(origin) = &mut self.origin {
                    origin.kill().await;
                    self.origin_is_gone().await;
                }
            }
            Order::Start(Part::Origin) => self.start_origin().await,
            Order::Kill(Part::Mirror(mirror)) => {
                let killed = self.mirrors.kill(mirror).await;
                self.note(mirror, Life::Dead, killed).await;
            }
            Order::Start(Part::Mirror(mirror)) => {
                self.tell(Part::Mirror(mirror), Life::Starting).await;
                let started = self.mirrors.restart(mirror).await;
                let life = if started.is_ok() { Life::Alive } else { Life::Dead };
                self.note(mirror, life, started).await;
                if life == Life::Alive {
                    tell_url(&mut self.mirrors, mirror, &self.news).await;
                }
            }
            Order::Pause(Part::Mirror(mirror), is_on) => {
                let done = if is_on { self.mirrors.stop(mirror) } else { self.mirrors.resume(mirror) };
                self.note(mirror, if is_on { Life::Stopped } else { Life::Alive }, done).await;
            }
            Order::Pause(Part::Origin, is_on) => {
                let Some(origin) = &self.origin else { return };
                signal(origin.id(), if is_on { libc::SIGSTOP } else { libc::SIGCONT });
                self.tell(Part::Origin, if is_on { Life::Stopped } else { Life::Alive }).await;
            }
        }
    }

    async fn start_origin(&mut self) {
        self.origin_returns_at = None;
        if self.origin.is_some() {
            return;
        }
        match self.recipe.start(&self.news) {
            Ok(origin) => {
                self.origin = Some(origin);
                self.tell(Part::Origin, Life::Starting).await;
            }
            Err(failure) => {
                self.problem(failure.to_string()).await;
                self.origin_returns_at = Some(Instant::now() + ORIGIN_RETURNS_AFTER);
            }
        }
    }

    async fn origin_is_gone(&mut self) {
        self.origin = None;
        self.origin_returns_at = Some(Instant::now() + ORIGIN_RETURNS_AFTER);
        self.tell(Part::Origin, Life::Dead).await;
    }

    /// Notices mirrors that ended by themselves.
    async fn look(&mut self) {
        for mirror in 0..MIRRORS {
            if self.lives[mirror] != Life::Dead && self.mirrors.has_ended(mirror) {
                self.problem(format!("mirror {mirror} has ended by itself{}", last_lines(&self.directory)))
                    .await;
                self.note(mirror, Life::Dead, Ok(())).await;
            }
        }
    }

    async fn note(&mut self, mirror: usize, life: Life, done: Result<(), Failure>) {
        if let Err(failure) = done {
            self.problem(failure.to_string()).await;
            if life != Life::Dead {
                return;
            }
        }
        self.lives[mirror] = life;
        self.tell(Part::Mirror(mirror), life).await;
    }

    async fn tell(&self, part: Part, life: Life) {
        // Without a board, the demo is ending.
        let _ = self.news.send(News::Life(part, life)).await;
    }

    async fn problem(&self, problem: String) {
        let _ = self.news.send(News::Said(problem)).await;
    }

    /// Tells the origin to take no further events. Returns true once all mirrors have confirmed all of them, and false if
    /// they did not within this time.
    pub(super) async fn finish_origin(&mut self, within: Duration) -> bool {
        let Some(origin) = &mut self.origin else { return false };
        signal(origin.id(), libc::SIGINT);
        let finished = timeout(within, origin.ended()).await;
        self.origin = None;
        finished == Ok(true)
    }

    /// Ends all processes and waits until they are gone.
    pub(super) async fn end(mut self) {
        if let Some(origin) = &mut self.origin {
            origin.kill().await;
        }
        self.mirrors.end().await;
    }
}

async fn ended(origin: &mut Option<OriginProcess>) -> bool {
    match origin {
        Some(origin) => origin.ended().await,
        None => std::future::pending().await,
    }
}

fn addrs(mirrors: &Fleet) -> Vec<String> {
    (0..mirrors.size()).map(|at| mirrors.addr(at).to_owned()).collect()
}

async fn tell_url(mirrors: &mut Fleet, mirror: usize, news: &mpsc::Sender<News>) {
    let line = timeout(URL_WITHIN, mirrors.line(mirror)).await.ok().flatten();
    let url = line.as_deref().and_then(|line| line.split_once(" at ")).map(|(_, url)| url.to_owned());
    if let Some(url) = url {
        let _ = news.send(News::Url(mirror, url)).await;
    }
}

fn signal(process: u32, signal: libc::c_int) {
    let Ok(pid) = libc::pid_t::try_from(process) else { return };
    // SAFETY: kill touches no memory. The child was not waited for, so the kernel has not reused its id. An error means
    // that the process is dead already, which its end tells.
    unsafe { libc::kill(pid, signal) };
}

/// The last lines that the processes wrote, for an error.
fn last_lines(directory: &TempDir) -> String {
    let path: PathBuf = directory.path().join("log");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(LOG_LINES).collect();
    lines.into_iter().rev().map(|line| format!("; {line}")).collect()
}

/// Asks the mirrors for their state, again and again, until there is no board.
pub(super) async fn watch_mirrors(client: Client, news: mpsc::Sender<News>) {
    loop {
        let asked = client.call::<Vec<MirrorStatus>>(&format!("{FEED}/status"), &());
        if let Ok(reply) = asked.deadline(STATUS_WITHIN).min_coverage(0.0).await
            && news.send(News::Mirrors(reply.value.unwrap_or_default())).await.is_err()
        {
            return;
        }
        sleep(STATUS_EVERY).await;
    }
}
