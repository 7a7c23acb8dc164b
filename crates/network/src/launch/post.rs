//! A process's side of a network: attaches to its parent, starts its assigned children, and ends with its
//! network.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use treefold::{ClusterOptions, Node};
//! use treefold_network::launch::{Post, Token};
//!
//! let token = std::env::var("TREEFOLD_TOKEN").ok().and_then(Token::new);
//! let node = Node::builder().cluster(ClusterOptions::default().token(token.clone())).attached_to("10.0.0.1:7700").start().await?;
//! let post = Post::new("10.0.0.1:7700", "node17:0").token(token);
//! let ending = post.run(&node, std::future::pending()).await?;
//! println!("{ending:?}");
//! # Ok(())
//! # }
//! ```

use super::command::STARTED_VARIABLE;
use super::foreman::{CONNECTION_LOST, Foreman, HAS_LEFT, until};
use crate::topology::Topology;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use treefold::Node;
use treefold::parts::Handle;
use treefold::parts::park::deadline_after;
use treefold::parts::resolve;
use treefold::parts::wire::{Assignment, Launch, Started, Token};
use treefold::parts::{LaunchAsk, LaunchNews, PostError};
use treefold_core::id::NodeId;
use treefold_core::membership::card::MemberCard;

/// Default time limit for finding the network again after a loss.
pub const PATIENCE_DEFAULT: Duration = Duration::from_secs(2);
/// Default time limit for the first attach. A job manager may start the process before the front-end.
pub const ATTACH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The first pause between two attempts. It doubles up to [`PAUSE_MAX`].
const PAUSE_LEAST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// Time that children have to end when the network ends.
const CHILDREN_GRACE: Duration = Duration::from_secs(1);
/// The most redirects of a process. More indicate a cycle.
const REDIRECTS_MAX: usize = 4;

/// Why a process has ended its part in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The network has ended.
    Ended,
    /// Neither the parent nor the front-end could be reached within the process's patience.
    Orphaned,
    /// The process itself stopped.
    Stopped,
}

/// A process's place in a network.
#[derive(Clone, Debug)]
#[must_use]
pub struct Post {
    parent: String,
    place: String,
    token: Option<Token>,
    patience: Duration,
    attach_timeout: Duration,
}

impl Post {
    /// The process named `place` in the topology, which attaches to its parent or the network's front-end at
    /// `parent`. If the name is empty, the process is the back-end of its node's only endpoint, or a guest.
    #[allow(clippy::needless_pass_by_value, reason = "texts and addresses are given alike")]
    pub fn new(parent: impl ToString, place: impl Into<String>) -> Self {
        Self {
            parent: parent.to_string(),
            place: place.into(),
            token: None,
            patience: PATIENCE_DEFAULT,
            attach_timeout: ATTACH_TIMEOUT_DEFAULT,
        }
    }

    /// The cluster's token, which is passed to its children. The node needs the same token.
    pub fn token(mut self, token: Option<Token>) -> Self {
        self.token = token;
        self
    }

    /// How long the process lives without its parent and the front-end.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Time limit for the first attach.
    pub fn attach_timeout(mut self, timeout: Duration) -> Self {
        self.attach_timeout = timeout;
        self
    }

    /// Attaches, starts the assigned children, and returns when the network or `stop` ends.
    ///
    /// # Errors
    /// If the network cannot be reached at first, or refuses this process.
    pub async fn run(self, node: &Node, stop: impl Future<Output = ()>) -> Result<Ending, PostError> {
        self.live(node.handle().clone(), node.card().clone(), None, stop).await
    }

    /// As [`run`](Self::run), for the node with this loop and this card. Notifies `assigned` when the process
    /// is accepted.
    pub(crate) async fn live(
        self,
        handle: Handle,
        card: Arc<MemberCard>,
        assigned: Option<oneshot::Sender<()>>,
        stop: impl Future<Output = ()>,
    ) -> Result<Ending, PostError> {
        let (sender, news) = mpsc::unbounded_channel();
        handle.launch_ask(LaunchAsk::Listen { news: sender });
        let own_addr = card.node.addr.to_string();
        let own = Started { place: self.place.clone(), card };
        let (parent, seeking, root, foreman) = (None, None, None, None);
        let mut member = Member {
            own_addr,
            plan: self,
            handle,
            own,
            parent,
            seeking,
            root,
            foreman,
            assigned,
            is_card_new: false,
        };
        member.seek(member.plan.parent.clone(), member.plan.attach_timeout, false);
        tokio::pin!(stop);
        member.live(news, stop.as_mut()).await
    }
}

/// A parent, and the card of this process, which names it.
type Found = (NodeId, Arc<MemberCard>);

/// A process that has attached or is trying to.
struct Member {
    plan: Post,
    handle: Handle,
    own: Started,
    own_addr: String,
    /// `None` while the process looks for a parent.
    parent: Option<NodeId>,
    seeking: Option<Seeking>,
    /// The front-end's address.
    root: Option<String>,
    foreman: Option<Foreman>,
    assigned: Option<oneshot::Sender<()>>,
    /// The card of this process has changed since it was sent.
    is_card_new: bool,
}

/// The search for a parent. Other messages are handled in the meantime.
struct Seeking {
    found: Pin<Box<dyn Future<Output = Result<Found, PostError>> + Send>>,
    /// True if the parent was lost. If no other is found, the network has ended, which is not an error.
    is_orphan: bool,
}

impl Member {
    async fn live(
        mut self,
        mut news: mpsc::UnboundedReceiver<LaunchNews>,
        mut stop: impl Future<Output = ()> + Unpin,
    ) -> Result<Ending, PostError> {
        let mut redirects = 0;
        loop {
            let heard = self.next(&mut news, &mut stop).await;
            let ending = match heard {
                Heard::Nothing => None,
                Heard::Stop => Some(Ending::Stopped),
                Heard::Closed => return Err(PostError::Closed),
                Heard::Found(found) => self.take_parent(found)?,
                Heard::News(LaunchNews::Said { from, word }) => match *word {
                    Launch::Redirect { addr } if self.is_parent(from) && redirects < REDIRECTS_MAX => {
                        redirects += 1;
                        self.seek(addr, self.plan.attach_timeout, false);
                        None
                    }
                    Launch::Refuse { why } if self.is_parent(from) => {
                        return Err(PostError::Refused { addr: from.addr.to_string(), problem: why });
                    }
                    Launch::End if self.is_parent(from) => Some(Ending::Ended),
                    word => {
                        self.hear(from, word);
                        None
                    }
                },
                Heard::News(LaunchNews::Lost { peer }) => {
                    self.lose(peer);
                    None
                }
                Heard::News(LaunchNews::Card { card }) => {
                    self.own.card = card;
                    self.is_card_new = true;
                    None
                }
                Heard::News(LaunchNews::TurnedAway { .. }) => None,
            };
            if let Some(ending) = ending {
                if let (Ending::Stopped, Some(parent)) = (ending, self.parent) {
                    say(&self.handle, parent, Launch::Leave);
                }
                if let Some(mut foreman) = self.foreman {
                    foreman.end(&mut news, std::iter::empty(), CHILDREN_GRACE).await;
                }
                return Ok(ending);
            }
            // One report with all changes that have arrived in the meantime.
            if news.is_empty() {
                self.report();
            }
        }
    }

    async fn next(
        &mut self,
        news: &mut mpsc::UnboundedReceiver<LaunchNews>,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> Heard {
        let seeking = &mut self.seeking;
        let is_seeking = seeking.is_some();
        let found = async {
            match seeking {
                Some(seeking) => (&mut seeking.found).await,
                None => std::future::pending().await,
            }
        };
        let Some(foreman) = &mut self.foreman else {
            return tokio::select! {
                biased;
                () = stop => Heard::Stop,
                found = found, if is_seeking => Heard::Found(found),
                news = news.recv() => news.map_or(Heard::Closed, Heard::News),
            };
        };
        let (due_at, is_anyone_expected) = (foreman.due_at(), foreman.is_anyone_expected());
        tokio::select! {
            biased;
            () = stop => Heard::Stop,
            // Before the news, because the loss of a parent can only follow its discovery.
            found = found, if is_seeking => Heard::Found(found),
            news = news.recv() => news.map_or(Heard::Closed, Heard::News),
            Some(Ok(ended)) = foreman.processes.join_next() => {
                foreman.note_end(&ended);
                Heard::Nothing
            }
            () = until(due_at), if is_anyone_expected => {
                foreman.give_up_waiting();
                Heard::Nothing
            }
            // Attaching processes are served first. In between, the runtime runs its other tasks.
            () = tokio::task::yield_now(), if foreman.has_to_start() => {
                foreman.start_some();
                Heard::Nothing
            }
        }
    }

    fn is_parent(&self, peer: NodeId) -> bool {
        self.parent == Some(peer)
    }

    fn hear(&mut self, from: NodeId, word: Launch) {
        match word {
            Launch::Assign(assignment) if self.is_parent(from) => self.assign(*assignment),
            Launch::Attach(started) => {
                let place = started.place.clone();
                if self.foreman.as_mut().is_some_and(|foreman| foreman.take_in(from, started)) {
                    return;
                }
                let answer = match &self.root {
                    // The front-end knows the places of all processes.
                    Some(root) if place.is_empty() => Launch::Redirect { addr: root.clone() },
                    _ => Launch::Refuse { why: format!("this process has no child {place}") },
                };
                say(&self.handle, from, answer);
            }
            Launch::Leave => self.foreman.iter_mut().for_each(|foreman| foreman.let_go(from, HAS_LEFT)),
            Launch::Report { started, failed } => {
                if let Some(foreman) = &mut self.foreman {
                    foreman.take_report(from, started, failed);
                }
            }
            // These are ignored unless they come from the parent.
            Launch::Assign(_) | Launch::Redirect { .. } | Launch::Refuse { .. } | Launch::End => {}
        }
    }

    fn assign(&mut self, assignment: Assignment) {
        self.root = Some(assignment.root.clone());
        if let Some(assigned) = self.assigned.take() {
            // If the receiver no longer waits, it is about to end.
            let _ = assigned.send(());
        }
        if assignment.part.is_empty() {
            return;
        }
        let Ok(part) = assignment.part.parse::<Topology>() else {
            return tracing::warn!("the assigned part of the topology is malformed");
        };
        // An adopted process gets a second assignment. Its children already exist.
        if part.processes().len() > 1 && self.foreman.is_none() {
            let (handle, addr, token) = (self.handle.clone(), self.own_addr.clone(), self.plan.token.clone());
            self.foreman = Some(Foreman::new(handle, addr, &part.into_part(), assignment, token, false));
        }
    }

    fn report(&mut self) {
        let (Some(foreman), Some(parent)) = (&mut self.foreman, self.parent) else { return };
        let (mut started, failed) = foreman.drain_report().unwrap_or_default();
        if !started.is_empty() {
            let cards = started.iter().map(|started| Arc::clone(&started.card)).collect();
            self.handle.launch_ask(LaunchAsk::Teach { cards });
        }
        if std::mem::take(&mut self.is_card_new) {
            started.push(self.own.clone());
        }
        if !started.is_empty() || !failed.is_empty() {
            say(&self.handle, parent, Launch::Report { started, failed });
        }
    }

    fn seek(&mut self, addr: String, patience: Duration, is_orphan: bool) {
        let handle = self.handle.clone();
        let found = Box::pin(async move { attach(&handle, &addr, patience).await });
        (self.parent, self.seeking) = (None, Some(Seeking { found, is_orphan }));
    }

    fn take_parent(&mut self, found: Result<Found, PostError>) -> Result<Option<Ending>, PostError> {
        let is_orphan = self.seeking.take().is_some_and(|seeking| seeking.is_orphan);
        match found {
            Ok((parent, card)) => {
                (self.parent, self.own.card) = (Some(parent), card);
                say(&self.handle, parent, Launch::Attach(self.own.clone()));
                Ok(None)
            }
            Err(error) if is_orphan => {
                tracing::debug!(%error, "the network is gone");
                Ok(Some(Ending::Orphaned))
            }
            Err(error) => Err(error),
        }
    }

    /// Handles the loss of a peer. If it was the parent, this process attaches to the front-end, or the
    /// network has ended.
    fn lose(&mut self, peer: NodeId) {
        if !self.is_parent(peer) {
            return self.foreman.iter_mut().for_each(|foreman| foreman.let_go(peer, CONNECTION_LOST));
        }
        if std::env::var_os(STARTED_VARIABLE).is_some() {
            forget_stderr();
        }
        let root = self.root.clone().unwrap_or_else(|| self.plan.parent.clone());
        self.seek(root, self.plan.patience, true);
    }
}

enum Heard {
    News(LaunchNews),
    Found(Result<Found, PostError>),
    Nothing,
    Stop,
    Closed,
}

fn say(handle: &Handle, to: NodeId, word: Launch) {
    handle.launch_ask(LaunchAsk::Say { to, word: Box::new(word) });
}

/// Connects, with further attempts as long as they may succeed.
async fn attach(handle: &Handle, addr: &str, patience: Duration) -> Result<Found, PostError> {
    let give_up_at = deadline_after(patience);
    let mut pause = PAUSE_LEAST;
    loop {
        let refused = match attach_once(handle, addr).await {
            Err(error) if error.is_passing() => error,
            done => return done,
        };
        if give_up_at.is_some_and(|at| Instant::now() + pause >= at) {
            return Err(refused);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Tries each address of a name.
async fn attach_once(handle: &Handle, addr: &str) -> Result<Found, PostError> {
    let unreachable = |problem: String| PostError::Unreachable { addr: addr.to_owned(), problem };
    let found = resolve(addr).await.map_err(|error| unreachable(error.to_string()))?;
    let ask = |addr| {
        let (answer, answered) = oneshot::channel();
        handle.launch_ask(LaunchAsk::Attach { addr, answer });
        async move { answered.await.unwrap_or(Err(PostError::Closed)) }
    };
    reach_any(found, ask).await.unwrap_or_else(|| Err(unreachable("the name has no address".to_owned())))
}

/// Tries the addresses in turn until one is reached. If none is, a refusal is reported rather than a missing
/// answer.
async fn reach_any<T, F: Future<Output = Result<T, PostError>>>(
    addrs: Vec<SocketAddr>,
    ask: impl Fn(SocketAddr) -> F,
) -> Option<F::Output> {
    let mut refused: Option<PostError> = None;
    for addr in addrs {
        match ask(addr).await {
            Ok(reached) => return Some(Ok(reached)),
            Err(error) if refused.as_ref().is_none_or(PostError::is_passing) => refused = Some(error),
            Err(_) => {}
        }
    }
    refused.map(Err)
}

/// Redirects standard error to /dev/null: the dead parent read it, and writing to the broken pipe would fail.
fn forget_stderr() {
    use std::os::fd::AsRawFd;
    let Ok(nowhere) = std::fs::OpenOptions::new().write(true).open("/dev/null") else { return };
    // SAFETY: both are open files, and standard error stays open throughout.
    unsafe { libc::dup2(nowhere.as_raw_fd(), libc::STDERR_FILENO) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_addresses_are_tried_and_refusals_are_preferred() {
        let there = NodeId::new(([127, 0, 0, 1], 3).into(), 0);
        let ask = |addr: SocketAddr| async move {
            match addr.port() {
                3 => Ok(there),
                2 => Err(PostError::Token { addr: addr.to_string() }),
                _ => Err(PostError::Unreachable { addr: addr.to_string(), problem: "silence".to_owned() }),
            }
        };
        let at = |ports: &[u16]| ports.iter().map(|&port| ([127, 0, 0, 1], port).into()).collect::<Vec<_>>();
        assert_eq!(reach_any(at(&[1, 3, 2]), ask).await, Some(Ok(there)));
        assert_eq!(reach_any(at(&[2, 3]), ask).await, Some(Ok(there)));
        let refusal = Err(PostError::Token { addr: "127.0.0.1:2".to_owned() });
        assert_eq!(reach_any(at(&[1, 2, 1]), ask).await, Some(refusal));
        assert_eq!(reach_any(at(&[]), ask).await, None);
    }
}
