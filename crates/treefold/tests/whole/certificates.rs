//! A cluster whose processes have certificates: who may do what, and how keys are replaced while it runs.

use crate::figures::{PATIENCE, service, total};
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use treefold::foreign::{filter_name, id_of};
use treefold::operators::filter::by_node::{self, ByNode, Chosen};
use treefold::operators::merge::Sum;
use treefold::push::{PushError, Worker};
use treefold::shares::ShareSetting;
use treefold::{
    CallError, Client, ClusterOptions, Credentials, CredentialsError, Error, Node, Right, StartError, Status,
    StreamError,
};
use treefold_certificates::{Authority, Grant, KeyFile, Role, Services};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder of keys, with its authority.
struct Keys {
    dir: TempDir,
    authority: Authority,
}

impl Keys {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), authority: Authority::new("prod").unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.pem"))
    }

    /// Issues keys with these rights, for these services or for all, and writes their file.
    fn issue(&self, role: Role, name: &str, may: &[Right], services: &[&str]) -> PathBuf {
        let services = match services {
            [] => Services::All,
            names => Services::Named(names.iter().map(|&name| name.to_owned()).collect()),
        };
        let at = if role == Role::Node { vec!["127.0.0.1".parse().unwrap()] } else { Vec::new() };
        let may = may.iter().copied().collect();
        let grant = Grant { cluster: "prod".into(), role, name: name.into(), may, services, at };
        let path = self.path(name);
        std::fs::write(&path, self.authority.issue(&grant, DAY).unwrap().to_pem()).unwrap();
        path
    }

    /// Issues all files again by another authority of the same cluster.
    fn issue_all_again(&mut self, authority: Authority) {
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            let again = authority.issue_again(&KeyFile::load(&path).unwrap(), DAY).unwrap();
            let fresh = path.with_extension("fresh");
            std::fs::write(&fresh, again.to_pem()).unwrap();
            std::fs::rename(fresh, path).unwrap();
        }
        self.authority = authority;
    }
}

fn cluster(file: PathBuf) -> ClusterOptions {
    ClusterOptions::new("prod").credentials(Credentials::load(file).unwrap())
}

/// Two nodes with certificates.
async fn nodes(keys: &Keys) -> [Node; 2] {
    let start = |name: &'static str, partitions, join: Option<&Node>| {
        let file = keys.issue(Role::Node, name, &[Right::Join], &[]);
        Node::builder().cluster(cluster(file)).join(join.map(Node::addr)).service(service(
            partitions,
            4,
            &Arc::default(),
        ))
    };
    let first = start("n1", 0..2, None).start().await.unwrap();
    let second = start("n2", 2..4, Some(&first)).start().await.unwrap();
    assert!(first.members_at_least(2, PATIENCE).await && second.members_at_least(2, PATIENCE).await);
    [first, second]
}

async fn client(node: &Node, file: PathBuf, direct: bool) -> Client {
    Client::builder().at([node.addr()]).direct(direct).cluster(cluster(file)).connect().await.unwrap()
}

async fn sum(client: &Client) -> Result<Option<i64>, Error> {
    let reply = client.call::<Sum>("figures/sum", &()).deadline(PATIENCE).await?;
    assert_eq!(reply.status, Status::Full);
    Ok(reply.value.map(|sum| sum.0))
}

fn is_denied(error: &Error, wanted: &str) -> bool {
    matches!(error, Error::Rejected(CallError::Denied { right, .. }) if right == wanted)
}

#[tokio::test]
async fn a_client_may_do_what_its_certificate_says() {
    let keys = Keys::new();
    let [first, _second] = nodes(&keys).await;
    let caller = keys.issue(Role::Client, "caller", &[Right::Call], &["figures"]);
    for direct in [false, true] {
        let client = client(&first, caller.clone(), direct).await;
        assert_eq!(sum(&client).await.unwrap(), Some(total(4)), "direct: {direct}");
    }
    let front = client(&first, caller.clone(), false).await;
    let refused = front.call::<Sum>("others/sum", &()).deadline(PATIENCE).await.unwrap_err();
    assert!(is_denied(&refused, "call"), "{refused}");
    assert_eq!(
        refused.to_string(),
        "the certificate does not give the right to call for the service \"others\""
    );
    let named = format!("figures/{}", filter_name(id_of(b"code")));
    let refused = front.call_raw(&named, Bytes::new()).await.unwrap_err();
    assert!(is_denied(&refused, "operate"), "{refused}");
    let refused = front.operator_push("code").await.unwrap_err();
    assert!(refused.to_string().contains("right to operate"), "{refused}");
    let setting = ShareSetting { service: "figures".into(), share: 2.0, class: None };
    let refused = front.set_shares([setting.clone()]).await.unwrap_err();
    assert!(refused.to_string().contains("right to operate"), "{refused}");
    assert!(front.shares().await.is_ok() && front.status().await.is_ok());

    let operator = keys.issue(Role::Client, "operator", &[Right::Operate], &[]);
    let operator = client(&first, operator, false).await;
    assert!(operator.set_shares([setting]).await.is_ok());
    assert!(is_denied(&sum(&operator).await.unwrap_err(), "call"));
}

#[tokio::test]
async fn streams_and_workers_need_their_rights() {
    let keys = Keys::new();
    let [first, _second] = nodes(&keys).await;
    let caller = keys.issue(Role::Client, "caller", &[Right::Call], &[]);
    let direct = client(&first, caller.clone(), true).await;
    let refused = direct.stream("figures").open().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Stream(StreamError::Denied { right, .. }) if &**right == "stream"),
        "{refused}"
    );
    let streamer = keys.issue(Role::Client, "streamer", &[Right::Stream], &[]);
    let streamer = client(&first, streamer, true).await;
    let sent = Chosen::new(filter_name(id_of(b"code")));
    let sent = ByNode { nodes: [(first.addr().to_string(), sent)].into(), ..ByNode::default() };
    let within = streamer.stream("figures").up_filter(by_node::NAME).filter_params(&sent);
    let refused = within.open().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Stream(StreamError::Denied { right, .. }) if &**right == "operate"),
        "a filter that was sent, within by-node: {refused}"
    );
    let attached = Worker::builder("figures", 0)
        .at([first.addr()])
        .cluster(cluster(caller))
        .timeout(Duration::from_secs(1))
        .attach()
        .await;
    let refused = attached.err().unwrap();
    assert!(
        matches!(&refused, PushError::Refused { problem, .. } if problem.contains("right to push")),
        "{refused}"
    );
}

#[tokio::test]
async fn a_node_does_only_what_its_certificate_allows() {
    let keys = Keys::new();
    let [first, _second] = nodes(&keys).await;
    let start = |file: PathBuf| {
        let node = Node::builder().cluster(cluster(file)).join([first.addr()]);
        node.service(service(0..1, 4, &Arc::default())).start()
    };
    let client = keys.issue(Role::Client, "client", &[Right::Call], &[]);
    let refused = start(client).await.unwrap_err();
    assert!(
        matches!(&refused, StartError::Certificate { wanted } if wanted.starts_with("join at 127.0.0.1"))
    );
    let other = keys.issue(Role::Node, "other", &[Right::Join], &["others"]);
    let refused = start(other).await.unwrap_err();
    assert!(
        matches!(&refused, StartError::Certificate { wanted } if wanted == "serve \"figures\""),
        "{refused}"
    );
}

#[tokio::test]
async fn strangers_learn_why_they_are_refused() {
    let keys = Keys::new();
    let [first, _second] = nodes(&keys).await;
    let connect = |options: ClusterOptions| Client::builder().at([first.addr()]).cluster(options).connect();
    let problem = |refused: Result<Client, Error>| match refused {
        Err(Error::Handshake { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    let plain = problem(connect(ClusterOptions::new("prod")).await);
    assert!(plain.contains("only one side encrypts connections"), "{plain}");
    let token =
        problem(connect(ClusterOptions::new("prod").token(treefold::parts::wire::Token::new("a"))).await);
    assert_eq!(token, "one side has a token, and the other a certificate");

    let stranger = Keys::new();
    let theirs = stranger.issue(Role::Client, "theirs", &[Right::Call], &[]);
    let refused = problem(connect(cluster(theirs)).await);
    assert!(refused.contains("no trusted authority has signed the certificate"), "{refused}");

    let soon = SystemTime::now() + Duration::from_secs(2);
    let grant = KeyFile::load(&keys.issue(Role::Client, "late", &[Right::Call], &[])).unwrap();
    let grant = treefold_certificates::Certificate::read(&grant.chain[0]).unwrap().grant;
    let late = keys.authority.issue_from(&grant, SystemTime::now() - DAY, soon).unwrap();
    std::fs::write(keys.path("late"), late.to_pem()).unwrap();
    let options = cluster(keys.path("late"));
    let client = connect(options.clone()).await.unwrap();
    assert_eq!(sum(&client).await.unwrap(), Some(total(4)));
    tokio::time::sleep(Duration::from_secs(4)).await;
    let refused = problem(connect(options).await);
    assert!(refused.contains("this side's certificate has expired"), "{refused}");
    assert!(sum(&client).await.is_err(), "the node has closed the connection at the certificate's end");
    assert!(matches!(Credentials::load(keys.path("late")), Err(CredentialsError::Refused { .. })));
}

#[tokio::test]
async fn useless_files_do_not_replace_the_keys() {
    let keys = Keys::new();
    let [first, _second] = nodes(&keys).await;
    let caller = keys.issue(Role::Client, "caller", &[Right::Call], &[]);
    let client = client(&first, caller, false).await;
    let grant = treefold_certificates::Certificate::read(&KeyFile::load(&keys.path("n1")).unwrap().chain[0]);
    let grant = grant.unwrap().grant;
    let now = SystemTime::now();
    let expired = keys.authority.issue_from(&grant, now - 2 * DAY, now - DAY).unwrap();
    let elsewhere = Grant { cluster: "test".into(), ..grant };
    let elsewhere = Authority::new("test").unwrap().issue(&elsewhere, DAY).unwrap();
    for useless in [expired.to_pem(), elsewhere.to_pem(), String::new()] {
        std::fs::write(keys.path("n1"), useless).unwrap();
        // Longer than the time between two looks at the file.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        assert_eq!(sum(&client).await.unwrap(), Some(total(4)));
        let another = keys.issue(Role::Client, "another", &[Right::Call], &[]);
        assert_eq!(sum(&self::client(&first, another, false).await).await.unwrap(), Some(total(4)));
    }
}

#[tokio::test]
async fn keys_are_replaced_while_calls_go_on() {
    let mut keys = Keys::new();
    let [first, second] = nodes(&keys).await;
    let caller = keys.issue(Role::Client, "caller", &[Right::Call], &[]);
    let clients = [client(&first, caller.clone(), false).await, client(&second, caller, true).await];
    let old = keys.issue(Role::Client, "old", &[Right::Call], &[]);
    let old_copy = keys.dir.path().with_extension("old.pem");
    std::fs::copy(old, &old_copy).unwrap();

    let both = keys.authority.rotate().unwrap();
    let finished = both.finish().unwrap();
    for authority in [both, finished] {
        keys.issue_all_again(authority);
        call_through(Duration::from_secs(4), &clients).await;
    }
    let refused = Client::builder().at([first.addr()]).cluster(cluster(old_copy.clone())).connect().await;
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("no trusted authority has signed the certificate"), "{told}");
    std::fs::remove_file(old_copy).unwrap();
}

/// Calls made in each step of a rotation.
const CALLS: usize = 5_000;

/// Makes calls with all clients for this time, and until there were enough of them. Each must be full.
async fn call_through(time: Duration, clients: &[Client]) {
    let (began, mut calls) = (std::time::Instant::now(), 0);
    while began.elapsed() < time || calls < CALLS {
        for client in clients {
            assert_eq!(sum(client).await.unwrap(), Some(total(4)));
            calls += 1;
        }
    }
}
