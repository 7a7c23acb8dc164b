//! Options of a network's start, and why it can fail.

use super::command::{Blanks, fill, is_here, node_command};
use crate::topology::{Process, Role, Topology};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use treefold::StartError;
use treefold::parts::wire::{Failed, Launcher, Token};
use treefold::{Node, NodeBuilder};

/// Default time limit for a network's start.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// The progress of a network's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Processes that have attached, without the front-end.
    pub started: usize,
    /// Processes that will not attach.
    pub failed: usize,
    /// All processes, without the front-end.
    pub total: usize,
}

/// Options of a network's start.
///
/// Command lines are templates: `{attach}` is replaced by the parent's address, `{place}` by the process's
/// name in the topology, `{number}` by the back-end's number, and `{total}` by the number of back-ends. The
/// token is in the process's environment as `TREEFOLD_TOKEN`.
pub struct UpOptions {
    /// The mechanism that starts processes.
    pub launcher: Launcher,
    /// The program for other hosts, with its options, before the host's name.
    pub ssh: Vec<String>,
    /// An inner process's command line.
    pub inner: Vec<String>,
    /// A back-end's command line.
    pub back_end: Vec<String>,
    /// The program's path on other hosts; by default the same as on this host.
    pub remote_program: Option<String>,
    /// Time limit for the start of all processes.
    pub timeout: Duration,
    /// True to accept a network with failures.
    pub allow_failures: bool,
    /// The network rejects processes with another token, and its processes reject networks with another one.
    /// `None` accepts every process. It is refused where the front-end listens beyond this machine, unless the options of the
    /// cluster allow it ([`ClusterOptions::insecure`](treefold::ClusterOptions::insecure)).
    pub token: Option<Token>,
    /// The front-end's listening address. The default is a free port, of the loopback address if all
    /// processes run here.
    pub listen: Option<String>,
    /// The address at which other processes reach the front-end.
    pub advertise: Option<String>,
    /// Further settings of the front-end's node.
    pub node: NodeBuilder,
    /// Called with the front-end's address before any process is started.
    pub on_ready: Option<Box<dyn FnOnce(SocketAddr) + Send>>,
    /// Called with the progress after each change.
    pub on_progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

impl UpOptions {
    /// Options for processes with these two command lines.
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

    /// Options for a network whose inner processes run `program`, the words of the command `treefold`. Without words in
    /// `back_end`, its back-ends run it too and serve `echo`, endpoints that send each packet back.
    pub fn of_program(program: &[String], back_end: Vec<String>) -> Self {
        let inner = node_command(program);
        let serve = ["--serve", "echo:partitions={number}/{total}"].map(str::to_owned);
        let echo = || inner.iter().cloned().chain(serve).collect();
        let back_end = if back_end.is_empty() { echo() } else { back_end };
        Self::new(inner, back_end)
    }

    /// The command line of each process except the front-end, if the front-end is at `attach`. For programs
    /// that start the processes by other means ([`Launcher::Wait`]).
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

/// Why a network did not start. All its processes have been ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpError {
    /// The front-end's node cannot start.
    #[error("the front-end could not start: {0}")]
    FrontEnd(#[source] StartError),
    /// Processes did not attach.
    #[error("{}", told(.failed, *.started, *.total))]
    Failed {
        /// The failed processes with reasons; at least one.
        failed: Vec<Failed>,
        /// Number of processes that had attached.
        started: usize,
        /// Number of all processes.
        total: usize,
    },
    /// An option is invalid.
    #[error("{field} is {given}; allowed: {allowed}")]
    BadOption {
        /// The option's name.
        field: &'static str,
        /// The given value.
        given: String,
        /// The allowed values.
        allowed: String,
    },
}

fn told(failed: &[Failed], started: usize, total: usize) -> String {
    let first = failed.first().map_or_else(String::new, |failed| format!(": {failed}"));
    format!("{started} of {total} processes came up{first}")
}
