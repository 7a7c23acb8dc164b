//! What a launcher (crate `treefold-network`) asks of its node's loop, and hears from it.
//!
//! A launcher lives on its user's runtime, or, where the user has none, on the loop's. Its words travel over the very
//! connections that streams will use: a child that has attached needs no further dial to take part in one. A node
//! that no launcher listens on drops such words.

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
use treefold_core::input::Input;
use treefold_core::membership::card::MemberCard;
use treefold_core::message::Message;

/// Why nobody could be attached to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// Nobody answers there, or not in time. It may be tried again.
    #[error("{addr} can't be reached: {problem}")]
    Unreachable {
        /// Where.
        addr: String,
        /// What the system says.
        problem: String,
    },
    /// The process there has another token.
    #[error("{addr} has another token than this process")]
    Token {
        /// Where.
        addr: String,
    },
    /// The process there speaks no version of the protocol that is known here.
    #[error("{addr} speaks another version of the protocol")]
    Version {
        /// Where.
        addr: String,
    },
    /// The process there belongs to another cluster.
    #[error("{addr} belongs to another cluster")]
    Cluster {
        /// Where.
        addr: String,
    },
    /// It will not have this process, for another reason.
    #[error("{addr} refuses: {problem}")]
    Refused {
        /// Where.
        addr: String,
        /// What it says.
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
            GreetError::Wire(_) | GreetError::Full { .. } | GreetError::Echo => FaultCode::Malformed,
        };
        match code {
            FaultCode::Token => Self::Token { addr },
            FaultCode::Version => Self::Version { addr },
            FaultCode::Cluster => Self::Cluster { addr },
            _ => Self::Refused { addr, problem: error.to_string() },
        }
    }

    /// True when another attempt may succeed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// Something a launcher asks.
#[allow(missing_docs, reason = "the text of a variant names its fields")]
pub enum LaunchAsk {
    /// Tell me what happens from now on.
    Listen { news: mpsc::UnboundedSender<LaunchNews> },
    /// Connect there, and tell me who it is.
    Attach { addr: SocketAddr, answer: oneshot::Sender<Result<NodeId, PostError>> },
    /// Say this to a peer, if there is a connection.
    Say { to: NodeId, word: Box<Launch> },
    /// Know these.
    Learn { cards: Vec<Arc<MemberCard>> },
    /// Live this beside the loop: a launcher whose user has no runtime, or a stream whose events are told to a function.
    Live { life: Pin<Box<dyn Future<Output = ()> + Send>> },
    /// End the node.
    Stop,
}

/// Something a launcher hears.
#[allow(missing_docs, reason = "the text of a variant names its fields")]
pub enum LaunchNews {
    /// A peer says this.
    Said { from: NodeId, word: Box<Launch> },
    /// A peer is gone.
    Lost { peer: NodeId },
    /// Somebody connected and was turned away.
    TurnedAway { from: SocketAddr, why: String },
}

impl Loop {
    /// Passes news to the launcher, if there is one.
    pub(super) fn hear(&self, news: LaunchNews) {
        if let Some(launcher) = &*self.launcher.borrow() {
            // One that has gone away hears nothing, and that is all.
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
                self.feed(Input::Message { from, message: Message::Cards(cards) });
            }
            LaunchAsk::Live { life } => {
                tokio::task::spawn_local(life);
            }
            LaunchAsk::Stop => self.control.stop(),
        }
    }

    async fn attach(self: Rc<Self>, addr: SocketAddr, answer: oneshot::Sender<Result<NodeId, PostError>>) {
        let known = self.known_at(addr);
        let reached = match known {
            Some(peer) => Ok(peer),
            None if self.is_full() => {
                let problem = "this process has as many connections as it may (peers_max)".to_owned();
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
        // Who no longer waits is on its way out.
        let _ = answer.send(reached);
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
