//! Node processes, each in a namespace, that live no longer than this process.

use crate::network::Host;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The port of every node: each has a host of its own.
pub(crate) const PORT: u16 = 7700;

/// How long a node may take until it listens: the first ones look through a folder with cold caches.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A process that has not yet said that it listens.
pub(crate) struct Spawned {
    child: Child,
    stdout: Option<ChildStdout>,
    name: String,
}

/// A node that listens.
#[derive(Debug)]
pub(crate) struct Node {
    child: Child,
    /// Its host's name.
    pub(crate) name: String,
}

impl Spawned {
    /// Starts `treefold node` on a host. It must be started by a thread that lives as long as it is to.
    pub(crate) fn new(treefold: &Path, host: &Host, cluster: &str, arguments: &[String]) -> io::Result<Self> {
        let mut command = Command::new(treefold);
        command.args(["node", "--listen", &format!("{}:{PORT}", host.address), "--cluster", cluster]);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        host.space.contain(&mut command);
        let mut child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("can't start {}: {error}", treefold.display()))
        })?;
        let stdout = child.stdout.take();
        Ok(Self { child, stdout, name: host.plan.name.clone() })
    }

    /// Returns once it listens.
    pub(crate) fn listening(mut self) -> io::Result<Node> {
        let stdout = self.stdout.take().expect("invariant: spawned with a pipe for its output");
        let (said, heard) = mpsc::channel();
        // Goes on reading, so that a node that prints doesn't meet a closed pipe.
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines();
            lines.map_while(Result::ok).for_each(|line| drop(said.send(line)));
        });
        let node = Node { child: self.child, name: self.name };
        match heard.recv_timeout(START_TIMEOUT) {
            Ok(line) if line.starts_with("listening on ") => Ok(node),
            _ => Err(io::Error::other(format!(
                "the node on {} ended, or said nothing, before it was ready; its own words are above",
                node.name
            ))),
        }
    }
}

impl Node {
    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Dead already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
