//! Networks whose processes are nodes of this process: how they attach to their parents, and how processes
//! are taken in that the launcher no longer waits for. The command's tests cover real processes.

use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use treefold::{Node, Service, StartError};
use treefold_network::launch::{Ending, Launcher, Network, NetworkEvent, Post, UpOptions};

/// Longer than any step takes. Tests wait for conditions, never for this time.
const LONG: Duration = Duration::from_secs(30);

/// Options for processes that are started elsewhere, and a receiver of the front-end's address.
fn awaiting(timeout: Duration) -> (UpOptions, oneshot::Receiver<SocketAddr>) {
    let (ready, is_ready) = oneshot::channel();
    let nothing = vec!["true".to_owned()];
    let mut options = UpOptions::new(nothing.clone(), nothing);
    (options.launcher, options.timeout) = (Launcher::Wait, timeout);
    options.on_ready = Some(Box::new(|addr| ready.send(addr).unwrap()));
    (options, is_ready)
}

/// A process that runs until the network is over.
async fn attach(front: SocketAddr, place: &'static str) -> JoinHandle<Ending> {
    let echo = Service::new("echo").total(1);
    let node = Node::builder().attached_to(front).service(echo).start().await.unwrap();
    tokio::spawn(async move {
        let post = Post::new(front, place).patience(Duration::from_millis(10));
        post.run(&node, pending()).await.unwrap()
    })
}

#[tokio::test]
async fn orphan_of_a_missing_parent_is_adopted_with_its_children() {
    let topology = "a:0 => a:1 b:1; a:1 => a:2; a:2 => a:3;".parse().unwrap();
    let (mut options, is_ready) = awaiting(Duration::from_millis(500));
    options.allow_failures = true;
    options.listen = Some("127.0.0.1:0".to_owned());
    let network = tokio::spawn(Network::up(topology, options));
    let front = is_ready.await.unwrap();
    let mut processes = Vec::new();
    // a:1, the parent of some of them, never comes.
    for place in ["a:3", "a:2", "b:1"] {
        processes.push(attach(front, place).await);
    }
    let mut network = network.await.unwrap().unwrap();
    assert_eq!(network.failures()[0].place, "a:1");
    // On a slow machine they may come after the time limit, and are still taken in.
    while network.addrs().iter().flatten().count() < 4 {
        tokio::time::timeout(LONG, network.event()).await.expect("late processes are taken in").unwrap();
    }
    assert_eq!(network.addrs()[1], None);
    assert_eq!(network.back_ends().to_string(), "0-1");
    network.down(LONG).await;
    for process in processes {
        process.await.unwrap();
    }
}

#[tokio::test]
async fn no_node_joins_a_network_whose_processes_do_not_gossip() {
    let (options, is_ready) = awaiting(LONG);
    let network = tokio::spawn(Network::up("a:0 => a:1;".parse().unwrap(), options));
    let front = is_ready.await.unwrap();
    let process = attach(front, "a:1").await;
    let network = network.await.unwrap().unwrap();
    let refused = Node::builder().join([front]).start().await.expect_err("it would hold all for dead");
    assert!(matches!(&refused, StartError::Network { seed } if *seed == front.to_string()), "{refused}");
    network.down(LONG).await;
    process.await.unwrap();
}

#[tokio::test]
async fn network_may_wait_without_time_limit() {
    let (options, is_ready) = awaiting(Duration::MAX);
    let network = tokio::spawn(Network::up("a:0 => a:1;".parse().unwrap(), options));
    let process = attach(is_ready.await.unwrap(), "a:1").await;
    let mut network = network.await.unwrap().unwrap();
    process.abort();
    let event = tokio::time::timeout(LONG, network.event()).await.unwrap();
    assert!(matches!(event, Some(NetworkEvent::Lost(failed)) if failed.place == "a:1"));
}

#[tokio::test]
async fn process_can_be_stopped_while_it_seeks_its_parent() {
    // No process listens at this address any more.
    let parent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let node = Node::builder().attached_to(parent).start().await.unwrap();
    let post = Post::new(parent, "a:1").attach_timeout(Duration::MAX);
    let stop = tokio::time::sleep(Duration::from_millis(20));
    let ending = tokio::time::timeout(LONG, post.run(&node, stop)).await.expect("it hears the stop");
    assert_eq!(ending, Ok(Ending::Stopped));
}
