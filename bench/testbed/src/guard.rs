//! Who cleans up after this process, whatever becomes of it: a shell that waits for the end of a pipe.
//!
//! Namespaces and processes vanish by themselves. What has a name in a file system does not: the directory of indexes, and
//! control groups. The guard is told of both before anything is put into them, has a process group of its own, and ignores
//! what a terminal sends, so it is there when this process is killed in the middle of anything.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use tempfile::TempDir;

/// `$1` is a directory to remove with what is in it, `$2` a control group with its children, where there is one. Their
/// processes are dying, which takes a moment.
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

/// A directory that is gone soon after this process is.
#[derive(Debug)]
pub(crate) struct Guard {
    directory: PathBuf,
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Makes a directory; `group` may be made by whoever wants it.
    pub(crate) fn new(group: Option<&Path>) -> io::Result<Self> {
        // The name is the directory's; removing it is the guard's.
        let directory = TempDir::with_prefix("treefold-testbed-")?.keep();
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "guard"]).arg(&directory);
        command.arg(group.unwrap_or(Path::new(""))).process_group(0).stdin(Stdio::piped());
        let mut shell = command.spawn()?;
        let pipe = shell.stdin.take();
        Ok(Self { directory, shell, pipe })
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The shell's process.
    pub(crate) fn process(&self) -> u32 {
        self.shell.id()
    }
}

impl Drop for Guard {
    /// Lets it clean up, and waits for it.
    fn drop(&mut self) {
        drop(self.pipe.take());
        // If it can't be waited for it is gone.
        let _ = self.shell.wait();
    }
}
