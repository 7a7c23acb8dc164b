//! What can be asked of a network's start, and why it may not come up.

use super::command::{Blanks, fill, is_here};
use crate::topology::{Process, Role, Topology};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use treefold::StartError;
use treefold::parts::wire::{Failed, Launcher, Token};
use treefold::{Node, NodeBuilder};

/// How long a network may take to come up.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// How far a network has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Processes that have come, the front-end not counted.
    pub started: usize,
    /// Processes that will not.
    pub failed: usize,
    /// Processes in all, the front-end not counted.
    pub total: usize,
}

/// How a network is started.
///
/// Command lines are templates: `{attach}` stands for the parent's address, `{place}` for the process's name in the
/// topology, `{number}` for the back-end's number, `{total}` for how many back-ends there are. The token is in the
/// process's environment as `TREEFOLD_TOKEN`.
pub struct UpOptions {
    /// Who starts processes.
    pub launcher: Launcher,
    /// The program for other hosts with its options, before the host's name.
    pub ssh: Vec<String>,
    /// An inner process's command line.
    pub inner: Vec<String>,
    /// A back-end's command line.
    pub back_end: Vec<String>,
    /// The program's path on other hosts; by default the same as here.
    pub remote_program: Option<String>,
    /// How long all may take.
    pub timeout: Duration,
    /// True when a network with failures will do.
    pub allow_failures: bool,
    /// Who has not this token is turned away, and so is everyone here who meets another. `None` takes anybody.
    pub token: Option<Token>,
    /// Where the front-end listens; by default at a free port, of this machine alone when all processes are here.
    pub listen: Option<String>,
    /// Where the others reach the front-end.
    pub advertise: Option<String>,
    /// What else the front-end's node is to be.
    pub node: NodeBuilder,
    /// Told the front-end's address before anyone is started.
    pub on_ready: Option<Box<dyn FnOnce(SocketAddr) + Send>>,
    /// Told how far it is.
    pub on_progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

impl UpOptions {
    /// Processes of these two command lines.
    pub fn new(inner: Vec<String>, back_end: Vec<String>) -> Self {
        Self {
            launcher: Launcher::Auto,
            ssh: super::command::ssh_default(),
            inner,
            back_end,
            remote_program: None,
            timeout: TIMEOUT_DEFAULT,
            allow_failures: false,
            token: None,
            listen: None,
            advertise: None,
            node: Node::builder(),
            on_ready: None,
            on_progress: None,
        }
    }

    /// What each process but the front-end is started with, when the front-end is at `attach`: for who starts them by
    /// other means ([`Launcher::Wait`]).
    pub fn command_lines<'a>(
        &'a self,
        topology: &'a Topology,
        attach: SocketAddr,
    ) -> impl Iterator<Item = (&'a Process, Vec<String>)> + 'a {
        let (attach, mut number) = (attach.to_string(), 0);
        let total = topology.processes().iter().filter(|process| process.role == Role::BackEnd).count();
        topology.processes().iter().skip(1).map(move |process| {
            let is_back_end = process.role == Role::BackEnd;
            let template = if is_back_end { &self.back_end } else { &self.inner };
            let (attach, place) = (attach.as_str(), process.name());
            let words = fill(template, &Blanks { attach, place: &place, number, total: total as u32 });
            number += u32::from(is_back_end);
            (process, words)
        })
    }

    pub(super) fn listens_at(&self, topology: &Topology) -> String {
        let all_here = match self.launcher {
            Launcher::Local => true,
            Launcher::Ssh => false,
            Launcher::Auto | Launcher::Wait => {
                let root = &topology.root().host;
                topology.processes().iter().all(|process| process.host == *root || is_here(&process.host))
            }
        };
        let any = if all_here { "127.0.0.1:0" } else { "0.0.0.0:0" };
        self.listen.clone().unwrap_or_else(|| any.to_owned())
    }
}

impl fmt::Debug for UpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpOptions")
            .field("launcher", &self.launcher)
            .field("back_end", &self.back_end)
            .finish_non_exhaustive()
    }
}

/// Why a network is not up. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpError {
    /// The front-end's node can't start.
    #[error("the front-end: {0}")]
    FrontEnd(#[source] StartError),
    /// Processes did not come.
    #[error("{}", told(.failed, *.started, *.total))]
    Failed {
        /// Which, and why: at least one.
        failed: Vec<Failed>,
        /// How many had come.
        started: usize,
        /// How many there should have been.
        total: usize,
    },
    /// What was asked makes no sense.
    #[error("{field} is {given}; allowed: {allowed}")]
    BadOption {
        /// The option.
        field: &'static str,
        /// What was given.
        given: String,
        /// What is allowed.
        allowed: String,
    },
}

fn told(failed: &[Failed], started: usize, total: usize) -> String {
    let first = failed.first().map_or_else(String::new, |failed| format!(": {failed}"));
    format!("{started} of {total} processes came up{first}")
}
