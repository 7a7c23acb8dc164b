//! A NATS server whose JetStream stream has the events, and which is killed too.

use async_nats::jetstream::{self, stream};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use treefold_cli::exit::Failure;

/// The stream with the events, and its subject.
pub(super) const STREAM: &str = "EVENTS";
pub(super) const SUBJECT: &str = "events";
/// Time that a server has to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A running server.
pub(super) struct Nats {
    child: Child,
    program: PathBuf,
    config: PathBuf,
    port: u16,
    _store: TempDir,
}

impl Nats {
    /// Starts a server that forces each message to the disk, if it has that setting, and makes the stream.
    pub(super) async fn start() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("can't start nats-server: {error}"));
        let program =
            std::env::var_os("TREEFOLD_NATS_SERVER").map_or_else(|| "nats-server".into(), PathBuf::from);
        let store = tempfile::tempdir().map_err(failed)?;
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(failed)?.port();
        let config = store.path().join("nats.conf");
        let write = |sync: &str| {
            let kept = store.path().join("store");
            let text = format!("listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {kept:?}\n{sync} }}\n");
            std::fs::write(&config, text).map_err(failed)
        };
        write("sync_interval: always")?;
        let checked =
            Command::new(&program).arg("-c").arg(&config).arg("-t").output().await.map_err(failed)?;
        if !checked.status.success() {
            eprintln!(
                "bench-cluster: this nats-server has no sync_interval; a power cut, which is not tried, could lose messages"
            );
            write("")?;
        }
        let child = spawn(&program, &config)?;
        let nats = Self { child, program, config, port, _store: store };
        nats.wait().await?;
        Ok(nats)
    }

    pub(super) fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) async fn kill(&mut self) -> std::io::Result<()> {
        self.child.kill().await
    }

    /// Starts the killed server again; it is ready when this returns.
    pub(super) async fn restart(&mut self) -> Result<(), Failure> {
        self.child = spawn(&self.program, &self.config)?;
        self.wait().await
    }

    async fn wait(&self) -> Result<(), Failure> {
        let give_up_at = Instant::now() + READY_WITHIN;
        while Instant::now() < give_up_at {
            if let Ok(client) = async_nats::connect(self.addr()).await {
                let config = stream::Config {
                    name: STREAM.to_owned(),
                    subjects: vec![SUBJECT.to_owned()],
                    ..stream::Config::default()
                };
                if jetstream::new(client).get_or_create_stream(config).await.is_ok() {
                    return Ok(());
                }
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Err(Failure::failed("nats-server is not ready"))
    }
}

fn spawn(program: &Path, config: &Path) -> Result<Child, Failure> {
    let mut command = Command::new(program);
    command.arg("-c").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let spawned = command.kill_on_drop(true).spawn();
    spawned.map_err(|error| Failure::failed(format!("can't start nats-server: {error}")))
}
