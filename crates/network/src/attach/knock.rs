//! Knocking: somebody who answers is found before a node is started.
//!
//! A greeting is enough to learn whether a program and a network are of one cluster, one token and one version, and from
//! which of its addresses the program reaches that network. What is left of a knock is nothing: the connection closes.

use super::AttachError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::time::Instant;
use treefold::NodeBuilder;
use treefold::parts::{self, KnockError};

/// The first pause after nobody has answered.
const KNOCK_PAUSE_LEAST: Duration = Duration::from_millis(50);
/// The longest.
const KNOCK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Who answered, the address of ours that it saw, and whether it is of a network that a launcher keeps.
pub(super) struct Knocked {
    pub(super) addr: SocketAddr,
    pub(super) from: IpAddr,
    pub(super) by_launcher: bool,
}

/// Knocks at all of `at` in turn, as what `node` will be, until somebody answers or refuses.
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

/// One round over all addresses. That somebody refuses us says more than that others are silent.
async fn knock_at_all(at: &[String], node: &NodeBuilder) -> Result<Knocked, Turned> {
    let mut turned = Turned::Silent(String::new(), io::ErrorKind::AddrNotAvailable.into());
    for given in at {
        let addrs: Vec<SocketAddr> = match lookup_host(given).await {
            Ok(addrs) => addrs.collect(),
            Err(source) => {
                turned = turned.unless_away(given.clone(), source);
                continue;
            }
        };
        for addr in addrs {
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

    /// The same for whoever waited so long.
    pub(super) fn into_error(self, waited: Duration) -> AttachError {
        match self {
            Self::Away(addr, problem) => AttachError::Refused { addr: addr.to_string(), problem },
            Self::Silent(addr, source) => AttachError::Unreachable { waited, addr, source },
        }
    }
}
