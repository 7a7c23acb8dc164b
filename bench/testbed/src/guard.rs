//! Cleans up after this process, however it ends: a shell that waits for the end of a pipe.
//!
//! Namespaces and processes vanish by themselves. Names in a file system do not: the directory of indexes,
//! and control groups. The guard knows both before anything is put into them. It has a separate process group
//! and ignores signals from a terminal, so it survives if this process is killed at any point.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use tempfile::TempDir;

/// `$1` is a directory to remove with its content. `$2` is a control group to remove with its children, or
/// empty. The processes in the groups are dying, which takes a moment, so removal is retried.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
tries=0
while [ -n "$2" ] && [ -d "$2" ] && [ $tries -lt 100 ]; do
  rmdir "$2"/*/ 2>/dev/null
  rmdir "$2" 2>/dev/null || sleep 0.1
  tries=$((tries + 1))
done
rm -rf -- "$1"
"#;

/// A directory that is removed soon after this process ends.
#[derive(Debug)]
pub(crate) struct Guard {
    directory: PathBuf,
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Creates the directory and the guard. `group` need not exist; it is removed if it does.
    pub(crate) fn new(group: Option<&Path>) -> io::Result<Self> {
        // The guard removes the directory; `TempDir` must not.
        let directory = TempDir::with_prefix("treefold-testbed-")?.keep();
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "guard"]).arg(&directory);
        command.arg(group.unwrap_or(Path::new(""))).process_group(0).stdin(Stdio::piped());
        let mut shell = command.spawn()?;
        let pipe = shell.stdin.take();
        Ok(Self { directory, shell, pipe })
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the shell's process id.
    pub(crate) fn process(&self) -> u32 {
        self.shell.id()
    }
}

impl Drop for Guard {
    /// Lets the shell clean up, and waits for it.
    fn drop(&mut self) {
        drop(self.pipe.take());
        // If waiting fails, the shell has already ended.
        let _ = self.shell.wait();
    }
}
