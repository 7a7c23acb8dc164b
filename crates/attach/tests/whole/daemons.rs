//! The C examples as back-ends of real streams. They are compiled with the system's compiler and linked to
//! the static library.

use bytes::Bytes;
use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;
use treefold::operators::packet::Packet;
use treefold::{ClusterOptions, Node, PartitionSet, Shape, Stream};
use treefold_network::launch::{Launcher, Network, Token, UpOptions};

/// Longer than any step takes. Tests wait for conditions, never for this time.
const LONG: Duration = Duration::from_secs(60);
/// System libraries that the Rust part of a static library needs on Linux and on macOS.
const SYSTEM_LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];
/// Warnings are errors, because users compile the header with their own warnings.
const FLAGS: [&str; 6] = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"];

/// The static library that was built together with this test.
fn library() -> PathBuf {
    let beside = env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libtreefold_attach") && name.ends_with(".a")
    };
    let found = fs::read_dir(&beside).unwrap().map(|entry| entry.unwrap().path()).filter(is_ours);
    found.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("the library is built")
}

fn compiler() -> Option<&'static str> {
    let works =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let found = ["cc"].into_iter().find(works);
    if found.is_none() {
        eprintln!("skipped: there is no C compiler called cc, so the C examples were not built");
    }
    found
}

/// The arguments for Rust's own linker, which needs a sixth of the time of a system's for a library of 300 MB; none where it is
/// missing.
fn linker() -> Vec<String> {
    let asked = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot =
        asked.map(|asked| String::from_utf8_lossy(&asked.stdout).trim().to_owned()).unwrap_or_default();
    let targets = fs::read_dir(Path::new(&sysroot).join("lib/rustlib")).into_iter().flatten().flatten();
    let linkers = targets
        .map(|target| target.path().join("bin/gcc-ld"))
        .find(|linkers| linkers.join("ld.lld").exists());
    linkers
        .map_or_else(Vec::new, |linkers| vec!["-fuse-ld=lld".to_owned(), format!("-B{}", linkers.display())])
}

/// The path of an example. All are built once for the tests here; `None` without a compiler.
fn built(example: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<Option<TempDir>> = OnceLock::new();
    let directory = BUILT.get_or_init(|| {
        let compiler = compiler()?;
        let directory = TempDir::new().unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for example in ["daemon", "events", "front", "up"] {
            let done = Command::new(compiler)
                .args(FLAGS)
                .args(linker())
                .arg("-I")
                .arg(here.join("include"))
                .arg(here.join("examples").join(example).with_extension("c"))
                .arg(library())
                .args(SYSTEM_LIBRARIES)
                .arg("-o")
                .arg(directory.path().join(example))
                .output()
                .unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        Some(directory)
    });
    directory.as_ref().map(|directory| directory.path().join(example))
}

/// A running example, killed when the test drops it.
struct Daemon(Child);

impl Daemon {
    fn start(program: &Path, arguments: &[String]) -> Self {
        Self::spawn(Command::new(program).args(arguments))
    }

    fn spawn(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn pid(&self) -> i64 {
        i64::from(self.0.id())
    }

    /// Waits until it ends, and asserts that it succeeded.
    async fn ends_well(mut self) {
        drop(self.0.stdin.take());
        let status = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break status,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let said = self.0.stderr.take().map(|said| std::io::read_to_string(said).unwrap());
        assert!(status.success(), "{status}, signal {:?}: {said:?}", status.signal());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Killing a process that has already ended fails, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn arguments(front: &Node, endpoint: u32, total: u32) -> Vec<String> {
    [front.addr().to_string(), "hosts".to_owned(), endpoint.to_string(), total.to_string()].to_vec()
}

async fn network(program: &Path, daemons: u32) -> (Node, Vec<Daemon>) {
    let front = Node::builder().start().await.unwrap();
    let start = |endpoint| Daemon::start(program, &arguments(&front, endpoint, daemons));
    let daemons: Vec<Daemon> = (0..daemons).map(start).collect();
    assert!(front.members_at_least(daemons.len() + 1, LONG).await, "they attach");
    (front, daemons)
}

/// Starts a network whose back-ends are the example program.
async fn network_up(program: &Path, topology: &str) -> Network {
    let words = [&*program.to_string_lossy(), "{attach}", "hosts", "{number}", "{total}"];
    let back_end = words.map(str::to_owned).to_vec();
    let mut options = UpOptions::new(vec!["none".to_owned()], back_end);
    (options.launcher, options.timeout, options.token) = (Launcher::Local, LONG, Token::new("a secret"));
    Network::up(topology.parse().unwrap(), options).await.expect("all come")
}

/// Opens a stream to all `daemons`. A daemon that has joined is visible before its whole card is.
async fn open(front: &Node, filter: &str, daemons: usize) -> Stream {
    loop {
        let client = front.client();
        let stream = client.stream("hosts").up_filter(filter).shape(Shape::KAry(2)).open().await;
        match stream {
            Ok(stream) if stream.endpoints().len() == daemons => return stream,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// The command `treefold`, if it was built beside this test.
fn treefold() -> Option<PathBuf> {
    let path = env::current_exe().unwrap().parent()?.parent()?.join("treefold");
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} was not built, so no inner process was started", path.display());
    None
}

#[test]
fn front_end_in_c_starts_its_own_network() {
    let (Some(up), Some(daemon)) = (built("up"), built("daemon")) else { return };
    let directory = TempDir::new().unwrap();
    let topology = directory.path().join("tree.top");
    let run = |text: &str, program: &Path| {
        fs::write(&topology, text).unwrap();
        let ended = Command::new(&up).arg(&topology).arg(&daemon).arg(program).output().unwrap();
        let said = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (ended.status.code(), said(ended.stdout), said(ended.stderr))
    };
    let shows = |told: &str, back_ends: usize| {
        let at = told.lines().filter(|line| line.contains(" is at 127.0.0.1:")).count();
        at == back_ends && told.contains(&format!("greatest of {back_ends}: "))
    };
    let (code, told, problem) = run("a:0 => a:[1-3];", Path::new("none"));
    assert!(code == Some(0) && shows(&told, 3), "{told}{problem}");
    if let Some(treefold) = treefold() {
        let (code, told, problem) = run("a:0 => a:1 a:2; a:1 => a:[3-4]; a:2 => a:[5-6];", &treefold);
        assert!(code == Some(0) && shows(&told, 4), "{told}{problem}");
    }
    let (code, _, problem) = run("a:0 => a:1; a:1 => a:2;", Path::new("/nowhere/treefold"));
    assert!(code == Some(1) && problem.contains("a:1: can't be started"), "{problem}");
    let (code, _, problem) = run("a:0 =>", Path::new("none"));
    assert!(code == Some(1) && problem.contains("raising.topology"), "{problem}");
}

#[tokio::test]
async fn daemons_in_c_are_started_by_a_network_and_end_with_it() {
    let Some(program) = built("daemon") else { return };
    let network = network_up(&program, "a:0 => a:[1-3];").await;
    let expected: i64 = network.children().iter().map(|&(_, pid)| i64::from(pid)).sum();
    let mut stream = network.client().stream("hosts").up_filter("sum").open().await.expect("it opens");
    stream.send(Bytes::new()).await.unwrap();
    let wave = stream.wave().await.unwrap();
    let sum = Packet::read(&wave.packets[0]).unwrap().i64(0).unwrap();
    assert_eq!((sum, wave.contributors), (expected, PartitionSet::first(3)));
    // A process that has ended but was not waited for has no command line.
    let lives = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    let pids: Vec<u32> = network.children().iter().map(|&(_, pid)| pid).collect();
    assert!(pids.iter().all(lives));
    network.down(LONG).await;
    let all_ended = async {
        while pids.iter().any(lives) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, all_ended).await.expect("they end with the network");
}

#[tokio::test]
async fn daemons_in_c_answer_a_broadcast_and_their_answers_are_folded() {
    let Some(program) = built("daemon") else { return };
    let (front, daemons) = network(&program, 5).await;
    let expected: i64 = daemons.iter().map(Daemon::pid).sum();
    let mut stream = open(&front, "sum", 5).await;
    for _ in 0..100 {
        let tag = stream.send(Bytes::new()).await.unwrap();
        let wave = stream.wave().await.unwrap();
        let sum = Packet::read(&wave.packets[0]).unwrap();
        assert_eq!((wave.tag, sum.format().as_str()), (tag, "i64 f64"));
        assert_eq!((sum.i64(0).unwrap(), wave.contributors), (expected, PartitionSet::first(5)));
        assert!(sum.f64(1).unwrap() >= 0.0);
    }
    stream.close();
    for daemon in daemons {
        daemon.ends_well().await;
    }
}

#[tokio::test]
async fn daemon_with_its_own_loop_waits_in_poll() {
    let Some(program) = built("events") else { return };
    let (front, daemons) = network(&program, 3).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(open(&front, "identity", 3).await);
    }
    let sender = streams[0].sender();
    let payload = Bytes::from(vec![7; 4 << 10]);
    let expected = payload.clone();
    // Far more than a window, so the daemon runs out of room again and again.
    let flood = tokio::spawn(async move {
        for _ in 0..1_000 {
            sender.send(payload.clone()).await.unwrap();
        }
    });
    for number in 0..100u8 {
        for stream in &mut streams[1..] {
            stream.send(Bytes::from(vec![number])).await.unwrap();
            let wave = stream.wave().await.unwrap();
            assert_eq!(wave.packets, vec![Bytes::from(vec![number]); 3]);
        }
    }
    for _ in 0..1_000 {
        assert_eq!(streams[0].wave().await.unwrap().packets, vec![expected.clone(); 3]);
    }
    flood.await.unwrap();
    drop(streams);
    for daemon in daemons {
        daemon.ends_well().await;
    }
}

#[tokio::test]
async fn ended_stream_makes_room_for_a_waiting_one() {
    let Some(program) = built("events") else { return };
    let (front, daemons) = network(&program, 1).await;
    let mut streams = Vec::new();
    // As many streams as the example has seats.
    for number in 0..16u8 {
        let mut stream = open(&front, "identity", 1).await;
        stream.send(Bytes::from(vec![number])).await.unwrap();
        assert_eq!(stream.wave().await.unwrap().packets, [Bytes::from(vec![number])]);
        streams.push(stream);
    }
    let mut waiting = open(&front, "identity", 1).await;
    waiting.send(Bytes::from_static(b"me too")).await.unwrap();
    streams.remove(0).close();
    let wave = tokio::time::timeout(LONG, waiting.wave()).await.expect("it is accepted").unwrap();
    assert_eq!(wave.packets, [Bytes::from_static(b"me too")]);
    drop((streams, waiting));
    for daemon in daemons {
        daemon.ends_well().await;
    }
}

#[tokio::test]
async fn front_end_in_c_receives_the_waves_of_two_streams() {
    let Some((program, front_end)) = built("events").zip(built("front")) else { return };
    let (front, daemons) = network(&program, 4).await;
    // A daemon that has joined is visible before its whole card is.
    open(&front, "sum", 4).await.close();
    let arguments = [front.addr().to_string(), "hosts".to_owned()];
    let out = tokio::task::spawn_blocking(move || Command::new(front_end).args(arguments).output());
    let out = out.await.unwrap().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said = String::from_utf8(out.stdout).unwrap();
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["max: 7 of 4", "sum: 28 of 4"]);
    for daemon in daemons {
        daemon.ends_well().await;
    }
}

#[tokio::test]
async fn daemon_with_another_token_is_refused() {
    let Some(program) = built("daemon") else { return };
    let front = Node::builder()
        .cluster(ClusterOptions::default().token(Token::new("a secret of this test's")))
        .start()
        .await
        .unwrap();
    let with = |token: &str| {
        let mut command = Command::new(&program);
        command.args(arguments(&front, 0, 1)).env(Token::VARIABLE, token);
        command
    };
    let mut other = with("a guess");
    let out = tokio::task::spawn_blocking(move || other.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("attach: ") && said.contains("different cluster tokens"), "{said}");
    let daemon = Daemon::spawn(&mut with("a secret of this test's"));
    assert!(front.members_at_least(2, LONG).await);
    let mut stream = open(&front, "sum", 1).await;
    stream.send(Bytes::new()).await.unwrap();
    let wave = stream.wave().await.unwrap();
    assert_eq!(Packet::read(&wave.packets[0]).unwrap().i64(0).unwrap(), daemon.pid());
    stream.close();
    daemon.ends_well().await;
}

#[tokio::test]
async fn front_end_that_dies_under_load_causes_no_signal() {
    let Some(program) = built("daemon") else { return };
    let (front, daemons) = network(&program, 2).await;
    let mut stream = open(&front, "sum", 2).await;
    let sender = stream.sender();
    let flood = tokio::spawn(async move { while sender.send(Bytes::new()).await.is_ok() {} });
    for _ in 0..100 {
        stream.wave().await.unwrap();
    }
    front.abort();
    while stream.wave().await.is_ok() {}
    flood.await.unwrap();
    for daemon in daemons {
        daemon.ends_well().await;
    }
}

#[tokio::test]
async fn daemon_of_another_cluster_is_refused() {
    let Some(program) = built("daemon") else { return };
    let front = Node::builder().start().await.unwrap();
    let arguments = [arguments(&front, 0, 1), vec!["staging".to_owned()]].concat();
    let out = tokio::task::spawn_blocking(move || Command::new(program).args(arguments).output());
    let out = out.await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert!(said.contains("attach: ") && said.contains("another cluster"), "{said}");
}
