//! Knocking: finds a node that answers before this program starts its own.
//!
//! One greeting is enough to learn whether cluster, token and version match, and from which of its
//! addresses this program reaches the network. A knock leaves nothing behind: the connection is closed.

use super::AttachError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::time::Instant;
use treefold::NodeBuilder;
use treefold::parts::{self, KnockError};

/// First pause after a round in which no node answered.
const KNOCK_PAUSE_LEAST: Duration = Duration::from_millis(50);
/// Longest pause between two rounds.
const KNOCK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The node that answered, the local address from which it was reached, and whether a launcher keeps its
/// network.
pub(super) struct Knocked {
    pub(super) addr: SocketAddr,
    pub(super) from: IpAddr,
    pub(super) by_launcher: bool,
}

/// Knocks at all addresses of `at` in turn, with the identity of `node`, until a node answers or time is
/// up.
pub(super) async fn knock(
    at: &[String],
    node: &NodeBuilder,
    deadline_at: Option<Instant>,
) -> Result<Knocked, Turned> {
    let mut pause = KNOCK_PAUSE_LEAST;
    loop {
        let turned = match knock_at_all(at, node).await {
            Err(turned @ Turned::Silent(..)) => turned,
            done => return done,
        };
        let until = deadline_at.map_or(pause, |at| pause.min(at.duration_since(Instant::now())));
        if until.is_zero() {
            return Err(turned);
        }
        tokio::time::sleep(until).await;
        pause = (pause * 2).min(KNOCK_PAUSE_MAX);
    }
}

/// One round over all addresses. If one node refuses, that is reported rather than the silence of the
/// others.
async fn knock_at_all(at: &[String], node: &NodeBuilder) -> Result<Knocked, Turned> {
    let mut turned = Turned::Silent(String::new(), io::ErrorKind::AddrNotAvailable.into());
    for given in at {
        let found = parts::lookup(given).await;
        if let Some(source) = found.problem {
            turned = turned.unless_away(given.clone(), source);
        }
        for addr in found.addrs {
            match knock_at(addr, node).await {
                Ok(knocked) => return Ok(knocked),
                Err(KnockError::Io(source)) => turned = turned.unless_away(addr.to_string(), source),
                Err(KnockError::Refused(problem)) => turned = Turned::Away(addr, problem),
            }
        }
    }
    Err(turned)
}

async fn knock_at(addr: SocketAddr, node: &NodeBuilder) -> Result<Knocked, KnockError> {
    let knocked = parts::knock(addr, node).await?;
    Ok(Knocked { addr, from: knocked.from, by_launcher: knocked.by_launcher })
}

/// Why a round over all addresses led nowhere.
pub(super) enum Turned {
    Away(SocketAddr, String),
    Silent(String, io::Error),
}

impl Turned {
    fn unless_away(self, addr: String, source: io::Error) -> Self {
        match self {
            Self::Silent(..) => Self::Silent(addr, source),
            away @ Self::Away(..) => away,
        }
    }

    /// The error for a caller that waited for `waited`.
    pub(super) fn into_error(self, waited: Duration) -> AttachError {
        match self {
            Self::Away(addr, problem) => AttachError::Refused { addr: addr.to_string(), problem },
            Self::Silent(addr, source) => AttachError::Unreachable { waited, addr, source },
        }
    }
}
