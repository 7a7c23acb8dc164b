//! Real processes: starts the program under test, reads its output, and ends it in every case.

#![allow(dead_code, reason = "each test program uses a part")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Returns a command that runs the program under test.
pub(crate) fn treefold() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treefold"));
    command.env_remove("TREEFOLD_LOG").env_remove("TREEFOLD_AT").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Returns true if a program that a test needs is installed. Without it, the test is skipped.
pub(crate) fn is_installed(program: &str, version: &str, package: &str) -> bool {
    let asked = Command::new(program).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_installed = asked.is_ok_and(|status| status.success());
    if !is_installed {
        eprintln!("skipped: {program} is not installed (Debian: {package})");
    }
    is_installed
}

/// Waits until a node sees that a relay folds for a service.
pub(crate) fn wait_for_folding(at: &NodeProcess, relay: &NodeProcess, service: &str) {
    wait_until("the relay folds for the service", || {
        let status = run_args(&["status", "--at", &at.addr, "-o", "json"]).json();
        let members = status["members"].as_array().cloned().unwrap_or_default();
        let relay = members.into_iter().find(|member| member["addr"] == relay.addr).unwrap_or_default();
        relay["services"].get(service).is_some()
    });
}

/// Exit code and output of a command.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("ended by itself, not by a signal"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Parses the one JSON value on its standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {:?}; {}", self.stdout, self.stderr))
    }
}

/// Runs a command line, split at spaces, to its end.
pub(crate) fn run(line: &str) -> Ended {
    run_args(&line.split(' ').collect::<Vec<_>>())
}

/// Runs a command line to its end.
pub(crate) fn run_args(args: &[&str]) -> Ended {
    Ended::of(treefold().args(args).output().expect("the program can be started"))
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    Ended::of(command.output().expect("the program can be started"))
}

/// Runs a command line to its end with this text on its standard input.
pub(crate) fn run_with_input(args: &[&str], input: &str) -> Ended {
    let mut command = treefold();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be started");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("it reads its input");
    drop(stdin);
    Ended::of(child.wait_with_output().expect("it ends"))
}

/// The content of a page's blocks of a language, in order.
pub(crate) fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    // Every second part lies between fences.
    let inside = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    inside.filter(|(heading, _)| *heading == language).map(|(_, block)| block).collect()
}

/// Runs lines of a page as if they were pasted into a shell, in an empty directory. Their ports are replaced with free ones.
///
/// A line that fails ends the script. Processes in the background end with it.
pub(crate) fn paste(script: &str) -> Ended {
    let mut ports: Vec<&str> = script.split("127.0.0.1:").skip(1).map(|rest| &rest[..4]).collect();
    ports.sort_unstable();
    ports.dedup();
    // All are bound at once, so that no two are equal.
    let free: Vec<_> =
        ports.iter().map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let mut script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
    for (port, free) in ports.iter().zip(&free) {
        let free = free.local_addr().expect("an address");
        script = script.replace(&format!("127.0.0.1:{port}"), &free.to_string());
    }
    drop(free);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_treefold")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a path"));
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("bash");
    command.args(["-e", "-c", &script]).current_dir(directory.path()).stdin(Stdio::null());
    command.env("PATH", path).env("NO_COLOR", "1").env_remove("TREEFOLD_LOG");
    Ended::of(command.output().expect("bash can be started"))
}

/// A running `treefold node`, killed when dropped.
pub(crate) struct NodeProcess {
    child: Child,
    pub(crate) addr: String,
    stdout: BufReader<ChildStdout>,
}

impl NodeProcess {
    /// Starts a node on a free port and waits until it prints its address.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(&[], args)
    }

    /// Starts a node in this environment, on a free port unless the arguments say otherwise.
    pub(crate) fn start_with(environment: &[(&str, &str)], args: &[&str]) -> Self {
        let mut command = treefold();
        command.envs(environment.iter().copied());
        Self::of(command, args)
    }

    /// Starts a node that logs into a file.
    pub(crate) fn start_logging(args: &[&str], log: &std::path::Path) -> Self {
        let mut command = treefold();
        command.stderr(std::fs::File::create(log).expect("the log can be made"));
        Self::of(command, args)
    }

    /// Starts a node by this command, which runs the program under test.
    pub(crate) fn of(mut command: Command, args: &[&str]) -> Self {
        command.arg("node").stdout(Stdio::piped());
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(args);
        let mut child = command.spawn().expect("the program can be started");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("it prints its address");
        let addr = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("it printed {line:?}"));
        Self { addr: addr.to_owned(), child, stdout }
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it prints a line");
        line.trim().to_owned()
    }

    /// Closes the reading end of its standard error, which is a pipe.
    pub(crate) fn close_log(&mut self) {
        drop(self.child.stderr.take().expect("a pipe"));
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: kill touches no memory; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        if signal == libc::SIGSTOP {
            self.wait_until_stopped();
        }
    }

    /// A running process stops a little after the signal.
    fn wait_until_stopped(&self) {
        // SAFETY: zeroes are a valid `siginfo_t`, and waitid writes nothing else; it leaves the child as it is.
        let waited = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, self.child.id(), &raw mut info, libc::WSTOPPED | libc::WNOWAIT)
        };
        assert_eq!(waited, 0);
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end and returns the exit code, or `None` if a signal ended it.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it can be waited for").code()
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets the processes that `signal` reaches run for 20 ms after each pause while `work` is done.
pub(crate) fn while_hardly_running<T>(
    pause: Duration,
    signal: impl Fn(i32) + Sync,
    work: impl FnOnce() -> T,
) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                signal(libc::SIGSTOP);
                thread::sleep(pause);
                signal(libc::SIGCONT);
                thread::sleep(Duration::from_millis(20));
            }
        });
        // A panic would otherwise wait for the thread.
        let done = catch_unwind(AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Starts nodes that know each other, each with its part of `micro`'s partitions.
pub(crate) fn micro_cluster(nodes: u32, total: u32) -> Vec<NodeProcess> {
    let mut all: Vec<NodeProcess> = Vec::new();
    for at in 0..nodes {
        let ids: Vec<String> = (at..total).step_by(nodes as usize).map(|id| id.to_string()).collect();
        let serve = format!("micro:partitions={}/{total}", ids.join(","));
        let rack = format!("r{}", at % 2);
        let mut args = vec!["--serve", &serve, "--rack", &rack];
        let first = all.first().map(|first| first.addr.clone());
        if let Some(first) = &first {
            args.extend(["--join", first]);
        }
        all.push(NodeProcess::start(&args));
    }
    all.iter().for_each(|node| wait_for_members(&node.addr, nodes as usize));
    all
}

/// Starts nodes that know each other, each a host with its own name; `total` hosts are expected.
pub(crate) fn hosts_cluster(nodes: u32, total: u32) -> Vec<NodeProcess> {
    let mut all: Vec<NodeProcess> = Vec::new();
    for id in 0..nodes {
        all.push(host(id, total, all.first()));
    }
    all.iter().for_each(|node| wait_for_members(&node.addr, nodes as usize));
    all
}

/// Starts a node that is host `id` of `total`.
pub(crate) fn host(id: u32, total: u32, join: Option<&NodeProcess>) -> NodeProcess {
    let serve = format!("hosts:partitions={id}/{total}:name=web-{id}");
    let mut args = vec!["--serve", &serve];
    args.extend(join.iter().flat_map(|first| ["--join", &first.addr]));
    NodeProcess::start(&args)
}

/// Returns once `holds` returns true; panics after a time limit.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up_at = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < give_up_at, "still not: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns once a node has `members` members in sight, including itself.
pub(crate) fn wait_for_members(addr: &str, members: usize) {
    wait_until(&format!("{addr} sees {members} members"), || {
        let status = run_args(&["status", "--at", addr, "-o", "json"]);
        status.json()["members"].as_array().is_some_and(|others| others.len() + 1 == members)
    });
}

/// Starts relays that accept `words`, in so many racks, and waits until they see each other.
pub(crate) fn relays(count: usize, racks: usize) -> Vec<NodeProcess> {
    let mut relays: Vec<NodeProcess> = Vec::new();
    for at in 0..count {
        let rack = format!("r{}", at % racks);
        let mut args = vec!["--relay", "--rack", &rack, "--accept", "words"];
        let first = relays.first().map(|first| first.addr.clone());
        args.extend(first.iter().flat_map(|first| ["--join", first.as_str()]));
        relays.push(NodeProcess::start(&args));
    }
    relays.iter().for_each(|relay| wait_for_members(&relay.addr, count));
    relays
}
