//! The root's process: this program, run again as a node that folds and holds no partition.

use crate::Failure;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::operators::{OperatorError, Raw, merging, ready};
use treefold::{ClusterOptions, Limits, Node, Partition, Service};

/// The variable that makes a process the root. Its value is the number of children that will connect.
const ROOT: &str = "TREEFOLD_BENCH_FAN_IN_ROOT";
/// Files that a process has open besides the connections.
const OTHER_FILES: u64 = 64;

/// The limits of the root and of its connections: as many peers as children.
pub(crate) fn limits(children: u32) -> Limits {
    Limits { peers_max: children as usize + 16, ..Limits::DEFAULT }
}

/// Runs as the root, until standard input ends, if the environment says so.
pub(crate) fn play_if_asked() -> Option<Result<(), Failure>> {
    let children = std::env::var(ROOT).ok()?;
    Some(children.parse().map_err(Failure::from).and_then(play))
}

fn play(children: u32) -> Result<(), Failure> {
    allow_files(children)?;
    let sum = merging("sum", |_: &Partition, (): &()| Ok(Sum(0_i64)));
    let unasked =
        |_: &Partition, (): &()| -> Result<Raw, _> { Err(OperatorError::new("no partition is here")) };
    let terms = ready::sampled("sum-lines", &(), unasked).map_err(|error| error.to_string())?;
    let service = Service::new("fan").total(children).aggregation("sum", sum).operator("terms", terms);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let node = Node::builder()
            .relay()
            .workers(1)
            .cluster(ClusterOptions::default().limits(limits(children)))
            .service(service)
            .start()
            .await?;
        println!("{}", node.addr());
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
        Ok(())
    })
}

/// Raises the limit of open files to one per child.
pub(crate) fn allow_files(children: u32) -> Result<(), Failure> {
    let needed = u64::from(children) + OTHER_FILES;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit to a valid rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    if limit.rlim_max < needed {
        let most = limit.rlim_max;
        return Err(format!(
            "{children} children need {needed} open files, but the hard limit is {most}: raise it (`ulimit -Hn {needed}` as root) or measure fewer with --children"
        )
        .into());
    }
    limit.rlim_cur = limit.rlim_cur.max(needed);
    // SAFETY: the kernel reads one rlimit from a valid rlimit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}

/// A running root, which ends when this is dropped.
pub(crate) struct Root {
    child: Child,
    /// The root ends when this pipe is closed.
    _stdin: ChildStdin,
    pub(crate) addr: SocketAddr,
}

impl Root {
    /// Starts the root and waits until it listens.
    pub(crate) fn start(children: u32) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(ROOT, children.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut addr = String::new();
        BufReader::new(child.stdout.take().ok_or("no standard output")?).read_line(&mut addr)?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let addr = addr.trim().parse().map_err(|_| "the root ended before it listened")?;
        Ok(Self { child, _stdin: stdin, addr })
    }

    /// Returns the processor time that its threads have used.
    pub(crate) fn processor_time(&self) -> Result<Duration, Failure> {
        let mut nanos = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // The fields are: nanoseconds on a processor, nanoseconds in the run queue, time slices.
            let schedule = std::fs::read_to_string(task?.path().join("schedstat"))?;
            nanos += schedule.split_whitespace().next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Returns the bytes of its private memory in use, without memory shared with files and without socket
    /// buffers in the kernel.
    pub(crate) fn memory_bytes(&self) -> Result<u64, Failure> {
        self.status_bytes("RssAnon:")
    }

    /// Returns the most memory in use since [`forget_most_memory`](Self::forget_most_memory), without files.
    pub(crate) fn most_memory_bytes(&self) -> Result<u64, Failure> {
        Ok(self.status_bytes("VmHWM:")?.saturating_sub(self.status_bytes("RssFile:")?))
    }

    /// Begins a new search for the most memory in use.
    pub(crate) fn forget_most_memory(&self) -> Result<(), Failure> {
        Ok(std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?)
    }

    fn status_bytes(&self, field: &str) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line
            .and_then(|line| line.split_whitespace().next())
            .ok_or_else(|| format!("the kernel reports no {field}"))?;
        Ok(kib.parse::<u64>()? << 10)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // If it has ended already, these calls fail harmlessly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
