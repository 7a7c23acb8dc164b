//! The place where attacks are played: the nodes' program, a runtime for legitimate clients, and room for many sockets.

use crate::finding::Setback;
use std::path::PathBuf;
use tokio::runtime::Runtime;

/// Sockets that the largest attack opens, with some to spare.
const FILES_NEEDED: u64 = 5_000;

pub(crate) struct Lab {
    /// The executable of the nodes.
    pub(crate) treefold: PathBuf,
    /// Runs legitimate clients, also while the thread of the attack is blocked.
    pub(crate) runtime: Runtime,
}

impl Lab {
    pub(crate) fn new(treefold: Option<PathBuf>) -> Result<Self, Setback> {
        let treefold = match treefold {
            Some(path) => path,
            None => std::env::current_exe().map_err(Setback::doing("find this program"))?,
        };
        raise_limit_of_files();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(Setback::doing("start the runtime"))?;
        Ok(Self { treefold, runtime })
    }

    /// Checks that this process may open as many sockets as the largest attack needs.
    pub(crate) fn has_many_files(&self) -> Result<(), Setback> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        match limit {
            Some(limit) if limit < FILES_NEEDED => Err(Setback::new(format!(
                "this attack needs {FILES_NEEDED} open files, and the limit is {limit}; raise it with ulimit -n"
            ))),
            _ => Ok(()),
        }
    }
}

/// Raises the soft limit of open files to the hard one. An attack that needs more says so.
fn raise_limit_of_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
