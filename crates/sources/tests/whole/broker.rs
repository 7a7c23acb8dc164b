//! A NATS server for tests. Where none is installed, tests that need one print so and pass.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running NATS server with JetStream, killed when dropped.
pub struct Broker {
    child: Child,
    port: u16,
    store: tempfile::TempDir,
}

impl Broker {
    /// Starts a server. `None` if no program `nats-server` is in `PATH` or named by `TREEFOLD_NATS_SERVER`.
    pub async fn start() -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("skipped: no nats-server in PATH; TREEFOLD_NATS_SERVER can name one");
            return None;
        };
        let store = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = spawn(&program, port, &store);
        let broker = Self { child, port, store };
        broker.wait().await;
        Some(broker)
    }

    /// Kills the server and starts it again with the same store.
    pub async fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(&program().unwrap(), self.port, &self.store);
        self.wait().await;
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    async fn wait(&self) {
        for _ in 0..1_000 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the server does not listen");
    }
}

fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TREEFOLD_NATS_SERVER") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    places.find_map(|place| Some(place.join("nats-server")).filter(|file| file.is_file()))
}

fn spawn(program: &PathBuf, port: u16, store: &tempfile::TempDir) -> Child {
    Command::new(program)
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(store.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for Broker {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
