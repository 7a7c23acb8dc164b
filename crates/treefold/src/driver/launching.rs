//! The requests of a launcher (crate `treefold-network`) to its node's loop, and the loop's news for it.
//!
//! A launcher runs on its user's runtime, or on the loop's if the user has none. Its messages use the same
//! connections as streams, so a child that has attached needs no further dial to take part in a stream. A
//! node without a launcher drops these messages.

use super::Loop;
use super::link::{End, Route};
use crate::transport::{self, GreetError};
use crate::wire::{FaultCode, Launch, WireError};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use treefold_core::id::NodeId;
use treefold_core::input::{Command, Input};
use treefold_core::membership::card::MemberCard;
use treefold_core::message::Message;

/// Why attaching to another process failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// No process answers at the address, or not in time. Another attempt may succeed.
    #[error("{addr} can't be reached: {problem}")]
    Unreachable {
        /// The address.
        addr: String,
        /// The system's message.
        problem: String,
    },
    /// The process at the address has another token, or only one of both has one.
    #[error("{addr} has another token than this process, or only one of both has a token")]
    Token {
        /// The address.
        addr: String,
    },
    /// The process at the address speaks no version of the protocol that this process knows.
    #[error("{addr} speaks another version of the protocol")]
    Version {
        /// The address.
        addr: String,
    },
    /// The process at the address belongs to another cluster.
    #[error("{addr} belongs to another cluster")]
    Cluster {
        /// The address.
        addr: String,
    },
    /// The process at the address refuses this process for another reason.
    #[error("{addr} refuses: {problem}")]
    Refused {
        /// The address.
        addr: String,
        /// The reason.
        problem: String,
    },
    /// The node has ended.
    #[error("the node has been shut down")]
    Closed,
}

impl PostError {
    fn of(addr: SocketAddr, error: &GreetError) -> Self {
        let addr = addr.to_string();
        let code = match error {
            GreetError::Io(error) => return Self::Unreachable { addr, problem: error.to_string() },
            GreetError::Wire(WireError::Token) => FaultCode::Token,
            GreetError::Wire(WireError::Version { .. }) => FaultCode::Version,
            GreetError::Wire(WireError::Cluster { .. }) => FaultCode::Cluster,
            GreetError::Fault(fault) => fault.code,
            GreetError::Plain | GreetError::Encrypted | GreetError::OtherKind => FaultCode::Encryption,
            GreetError::Certificate(_) => FaultCode::Certificate,
            GreetError::Name(_) | GreetError::NotMine => FaultCode::Name,
            GreetError::Wire(_) | GreetError::Full { .. } | GreetError::Echo | GreetError::Tls(_) => {
                FaultCode::Malformed
            }
        };
        match code {
            FaultCode::Token | FaultCode::Encryption => Self::Token { addr },
            FaultCode::Version => Self::Version { addr },
            FaultCode::Cluster => Self::Cluster { addr },
            _ => Self::Refused { addr, problem: error.to_string() },
        }
    }

    /// True if another attempt may succeed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// A launcher's request.
#[allow(missing_docs, reason = "the text of a variant names its fields")]
pub enum LaunchAsk {
    /// Send me all news from now on.
    Listen { news: mpsc::UnboundedSender<LaunchNews> },
    /// Connect to the address, stand below the node there, and answer with that node and this node's card.
    Attach { addr: SocketAddr, answer: oneshot::Sender<Result<(NodeId, Arc<MemberCard>), PostError>> },
    /// Send a message to a peer, if there is a connection.
    Say { to: NodeId, word: Box<Launch> },
    /// Give core these cards.
    Learn { cards: Vec<Arc<MemberCard>> },
    /// Learn to fold for the services of these processes, which core does not see.
    Teach { cards: Vec<Arc<MemberCard>> },
    /// Tell core that a node is lost. This node may have no connection to it.
    Forget { node: NodeId },
    /// Run a future beside the loop: a launcher whose user has no runtime, or a stream whose events go to a
    /// function.
    Live { life: Pin<Box<dyn Future<Output = ()> + Send>> },
    /// End the node.
    Stop,
}

/// News for a launcher.
#[allow(missing_docs, reason = "the text of a variant names its fields")]
pub enum LaunchNews {
    /// A message of a peer.
    Said { from: NodeId, word: Box<Launch> },
    /// A peer is lost.
    Lost { peer: NodeId },
    /// The node folds for one more service, and says so on its card.
    Card { card: Arc<MemberCard> },
    /// A connecting process was rejected.
    TurnedAway { from: SocketAddr, why: String },
}

impl Loop {
    /// Passes news to the launcher, if there is one.
    pub(super) fn hear(&self, news: LaunchNews) {
        if let Some(launcher) = &*self.launcher.borrow() {
            // If the launcher is gone, its news are dropped.
            let _ = launcher.send(news);
        }
    }

    pub(super) fn take_launch_ask(self: &Rc<Self>, ask: LaunchAsk) {
        match ask {
            LaunchAsk::Listen { news } => *self.launcher.borrow_mut() = Some(news),
            LaunchAsk::Attach { addr, answer } => {
                tokio::task::spawn_local(Rc::clone(self).attach(addr, answer));
            }
            LaunchAsk::Say { to, word } => self.say(to, &word),
            LaunchAsk::Learn { cards } => {
                let from = self.identity.node;
                self.feed(Input::Message { from, message: Message::Cards(cards.into()) });
            }
            LaunchAsk::Teach { cards } => cards.iter().for_each(|card| self.learn_of(card)),
            LaunchAsk::Forget { node } => self.feed(Input::Lost { peer: node }),
            LaunchAsk::Live { life } => {
                tokio::task::spawn_local(life);
            }
            LaunchAsk::Stop => self.control.stop(),
        }
    }

    async fn attach(
        self: Rc<Self>,
        addr: SocketAddr,
        answer: oneshot::Sender<Result<(NodeId, Arc<MemberCard>), PostError>>,
    ) {
        let known = self.known_at(addr);
        let reached = match known {
            Some(peer) => Ok(peer),
            None if self.is_full() => {
                let problem = "this process has reached its limit of connections (peers_max)".to_owned();
                Err(PostError::Refused { addr: addr.to_string(), problem })
            }
            None => match transport::dial(addr, &self.identity).await {
                Ok(greeted) => {
                    let peer = greeted.peer;
                    self.adopt(greeted, End::Dialled);
                    Ok(peer)
                }
                Err(error) => Err(PostError::of(addr, &error)),
            },
        };
        let stands = |parent| {
            self.feed(Input::Command(Command::StandBelow { parent }));
            (parent, self.own_card())
        };
        // If the launcher no longer waits, it is about to end.
        let _ = answer.send(reached.map(stands));
    }

    pub(super) fn own_card(&self) -> Arc<MemberCard> {
        let machine = self.machine.borrow();
        let own = machine.node.view().card(&self.identity.node);
        Arc::clone(own.expect("invariant: a node knows its own card"))
    }

    fn known_at(&self, addr: SocketAddr) -> Option<NodeId> {
        let peers = self.peers.borrow();
        let there = |(peer, route): (&NodeId, &Route)| {
            (peer.addr == addr && matches!(route, Route::Up(_))).then_some(*peer)
        };
        peers.routes.iter().find_map(there)
    }

    fn say(self: &Rc<Self>, to: NodeId, word: &Launch) {
        let peers = self.peers.borrow();
        let Some(Route::Up(links)) = peers.routes.get(&to) else { return };
        let link = Rc::clone(&links[0]);
        drop(peers);
        let pushed = {
            let mut outbox = link.outbox.borrow_mut();
            outbox.push_launch(word).map(|()| outbox.len_bytes())
        };
        self.mark_dirty(&link);
        self.account(to, pushed);
    }
}
