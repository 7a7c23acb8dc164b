//! Node processes, each in a namespace, that end with this process.

use crate::network::Host;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The port of every node; each node has a separate host.
pub(crate) const PORT: u16 = 7700;

/// Most time until a node listens: the first nodes read a folder with cold caches.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A process that has not yet reported that it listens.
pub(crate) struct Spawned {
    child: Child,
    stdout: Option<ChildStdout>,
    name: String,
}

/// A node that listens.
#[derive(Debug)]
pub(crate) struct Node {
    child: Child,
    /// The name of its host.
    pub(crate) name: String,
}

impl Spawned {
    /// Starts `treefold node` on a host. The calling thread must live as long as the process, which ends with
    /// it.
    pub(crate) fn new(treefold: &Path, host: &Host, cluster: &str, arguments: &[String]) -> io::Result<Self> {
        let mut command = Command::new(treefold);
        command.args(["node", "--listen", &format!("{}:{PORT}", host.address), "--cluster", cluster]);
        // Only the hosts of this bed reach it.
        command.arg("--insecure");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        host.space.contain(&mut command);
        let mut child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("can't start {}: {error}", treefold.display()))
        })?;
        let stdout = child.stdout.take();
        Ok(Self { child, stdout, name: host.plan.name.clone() })
    }

    /// Waits until it listens.
    pub(crate) fn listening(mut self) -> io::Result<Node> {
        let stdout = self.stdout.take().expect("invariant: spawned with a pipe for its output");
        let (said, heard) = mpsc::channel();
        // Continues to read, so that a node that prints does not write to a closed pipe.
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines();
            lines.map_while(Result::ok).for_each(|line| drop(said.send(line)));
        });
        let node = Node { child: self.child, name: self.name };
        match heard.recv_timeout(START_TIMEOUT) {
            Ok(line) if line.starts_with("listening on ") => Ok(node),
            _ => Err(io::Error::other(format!(
                "the node on {} ended, or printed nothing, before it was ready; its messages are above",
                node.name
            ))),
        }
    }
}

impl Node {
    /// Returns the process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // If it has ended already, these calls fail harmlessly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
