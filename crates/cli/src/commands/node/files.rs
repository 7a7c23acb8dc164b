//! Open files: each connection is one, and systems allow a program few of them unless it asks for more.
//!
//! Many systems start programs with a soft limit of 1,024 and a much higher hard limit, because programs that use
//! `select` fail with higher descriptors. This program does not use it, so a node raises its soft limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that a node asks for: a mirror's 10,000 readers over streams, 10,000 over HTTP, and room for journals, caches
/// and other nodes. More would let a defect take files from the rest of the system.
pub(crate) const FILES_WANTED: u64 = 65_536;

/// Raises the limit of open files, as far as the system permits. Returns the limit then, or `None` if there is none.
pub(super) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current?;
    let wanted = FILES_WANTED.min(maximum.unwrap_or(u64::MAX));
    if wanted <= current {
        return Some(current);
    }
    // A system that refuses it leaves the former limit.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    Some(if raised.is_ok() { wanted } else { current })
}

/// Says that readers over HTTP may find no file left.
pub(super) fn warn(files: Option<u64>, connections_max: usize) {
    if let Some(files) = files.filter(|&files| files < connections_max as u64) {
        crate::tell!(
            "treefold: the system lets this node open {files} files, but its listener takes {connections_max} connections; \
             raise the hard limit (ulimit -Hn)"
        );
    }
}
