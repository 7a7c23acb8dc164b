//! Locals in processes of their own: the example `isolated`, as a node with two partitions and two processes, whose locals abort,
//! loop, and are killed.

use crate::examples::example;
use crate::figures::eventually;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use treefold::operators::merge::Concatenate;
use treefold::{Client, Raw, Reason, Reply, Service, StartError, Status};

const PATIENCE: Duration = Duration::from_secs(20);
/// The example's `payload_bytes_max`.
const PARTIAL_BYTES_MAX: u64 = 1 << 20;

type Told = Concatenate<u32, String>;

/// The example's node, which is killed when it is dropped.
struct Host {
    node: Child,
    client: Client,
}

impl Host {
    async fn start() -> Self {
        let mut node = example("isolated").arg("node").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(node.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("listening on ").unwrap();
        Self { client: Client::connect(addr).await.unwrap(), node }
    }

    /// Tells partition 1 something, and partition 0 to report.
    async fn tell(&self, order: &str, deadline: Duration) -> Reply<Told> {
        let call = self.client.call::<Told>("orders/obey", &"report".to_owned()).deadline(deadline);
        call.params_for(1, &order.to_owned()).min_coverage(0.0).await.unwrap()
    }

    /// The processes of the partitions, which all contribute.
    async fn processes(&self) -> BTreeSet<String> {
        let reply = self.tell("report", PATIENCE).await;
        assert_eq!(reply.status, Status::Full, "{:?}", reply.missing);
        reply.value.unwrap().into_entries().into_iter().map(|(_, process)| process).collect()
    }

    fn children(&self) -> BTreeSet<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.node.id())).unwrap();
        let of = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()
        };
        tasks
            .map(of)
            .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    /// Processes that compute.
    fn looping(&self) -> usize {
        self.children().iter().filter(|process| state(process) == Some('R')).count()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

/// The only loss.
fn reason(reply: &Reply<Told>) -> &Reason {
    let [missing] = &reply.missing[..] else { panic!("{:?}", reply.missing) };
    assert_eq!((missing.partitions.to_string().as_str(), reply.contributed.to_string().as_str()), ("1", "0"));
    &missing.reason
}

async fn is_gone(process: &str) {
    let path = format!("/proc/{process}");
    eventually("the process has ended and was reaped", || async { !Path::new(&path).exists() }).await;
}

#[tokio::test]
async fn a_local_that_crashes_costs_its_partition_and_not_the_node() {
    let host = Host::start().await;
    for (order, panicked) in [
        ("abort", "the process of the local was ended by signal 6"),
        ("exit", "the process of the local ended with exit code 3"),
        ("panic", "as told"),
    ] {
        let reply = host.tell(order, PATIENCE).await;
        let reason = reason(&reply);
        assert!(matches!(reason, Reason::LocalPanicked(text) if **text == *panicked), "{order}: {reason:?}");
        assert!(!host.processes().await.contains(&host.node.id().to_string()));
    }
    let reply = host.tell("fail", PATIENCE).await;
    assert!(matches!(reason(&reply), Reason::LocalFailed(text) if **text == *"obey: as told"), "{reply:?}");
    let call = host.client.call::<Told>("orders/obey", &7_u32).deadline(PATIENCE);
    assert!(matches!(call.await, Err(treefold::Error::InvalidParams { .. })));
    eventually("no more than two processes are left", || async { host.children().len() <= 2 }).await;
}

#[tokio::test]
async fn a_local_that_never_returns_costs_its_process() {
    let host = Host::start().await;
    // If they stayed, two of them would hold both processes.
    for _ in 0..3 {
        let reply = host.tell("loop", Duration::from_secs(2)).await;
        assert!(!reply.contributed.contains(1), "{reply:?}");
        eventually("the process that loops is killed", || async { host.looping() == 0 }).await;
        host.processes().await;
    }
    // A call that nobody waits for any more.
    let call = host.client.call::<Told>("orders/obey", &"loop".to_owned()).deadline(PATIENCE);
    let open = tokio::spawn(async move { call.await });
    eventually("both processes loop", || async { host.looping() == 2 }).await;
    open.abort();
    eventually("the processes of the cancelled call are killed", || async { host.looping() == 0 }).await;
    host.processes().await;
}

#[tokio::test]
async fn processes_that_are_killed_are_replaced_and_those_of_a_killed_node_end() {
    let mut host = Host::start().await;
    let killed = host.processes().await;
    for process in &killed {
        assert!(Command::new("kill").args(["-9", process]).status().unwrap().success());
        is_gone(process).await;
    }
    let now = host.processes().await;
    assert!(now.is_disjoint(&killed), "{now:?}");
    for process in &now {
        assert_eq!(listening_sockets(process), 0, "the node's sockets are its own");
    }
    let call = host.client.call::<Told>("orders/obey", &"loop".to_owned()).deadline(PATIENCE);
    let open = tokio::spawn(async move { call.await });
    eventually("both processes loop", || async { host.looping() == 2 }).await;
    let children = host.children();
    host.node.kill().unwrap();
    host.node.wait().unwrap();
    for process in now.union(&children) {
        // Nobody reaps the orphans, where no program does that for the system.
        let has_ended = || async { matches!(state(process), None | Some('Z')) };
        eventually("the process of the killed node has ended", has_ended).await;
    }
    assert!(open.await.unwrap().is_err(), "the front is gone");
}

/// The letter of a process's state, unless it was reaped.
fn state(process: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Sockets of a process that listen for TCP.
fn listening_sockets(process: &str) -> usize {
    const LISTENS: &str = "0A";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listening: BTreeSet<String> = table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (fields.get(3) == Some(&LISTENS)).then(|| format!("socket:[{}]", fields[9]))
        })
        .collect();
    assert!(!listening.is_empty(), "the node listens");
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_str().is_some_and(|target| listening.contains(target))).count()
}

#[tokio::test]
async fn partials_are_bounded() {
    let host = Host::start().await;
    let ask = |bytes: u64| {
        let call = host.client.call::<Raw>("orders/bytes", &bytes).partitions([1].into_iter().collect());
        call.min_coverage(0.0).deadline(PATIENCE)
    };
    let reply = ask(PARTIAL_BYTES_MAX).await.unwrap();
    assert_eq!((reply.status, reply.value.unwrap().0.len() as u64), (Status::Full, PARTIAL_BYTES_MAX));
    let reply = ask(PARTIAL_BYTES_MAX + 1).await.unwrap();
    let says = "its partial has 1048577 bytes; allowed: at most 1048576 (payload_bytes_max)";
    assert!(
        matches!(&reply.missing[0].reason, Reason::LocalFailed(text) if **text == *says),
        "{:?}",
        reply.missing
    );
}

#[tokio::test]
async fn services_that_cannot_be_isolated_are_refused() {
    let service = || Service::new("orders").total(1);
    for (service, says) in [
        (service().isolated(0), "isolated is 0; allowed: 1 to 256 processes"),
        (service().placed(1, |_: u32| Ok::<_, String>(())).isolated(1), "placed automatically"),
        (Service::new("orders").pushed().isolated(1), "workers push"),
    ] {
        let refused = treefold::Node::builder().service(service).start().await.unwrap_err();
        assert!(matches!(&refused, StartError::Service { .. }), "{refused:?}");
        assert!(refused.to_string().contains(says), "{refused}");
    }
}
