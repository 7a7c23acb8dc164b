//! A server that speaks S3, and that can be cut off.

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};
use tokio::sync::watch;
use treefold_objects::Folder;

pub(crate) const KEY: &str = "treefold";
pub(crate) const SECRET: &str = "treefold-secret";

/// A server over a directory, behind a proxy that counts what it sends and can be cut off.
pub(crate) struct Store {
    directory: TempDir,
    addr: SocketAddr,
    /// Bytes that the store may still send; then its connections are cut.
    gate: watch::Sender<bool>,
    pub(crate) sent: Arc<AtomicU64>,
    budget: Arc<AtomicU64>,
    _runtime: Runtime,
}

impl Store {
    /// Starts a server with the bucket `docs`.
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("docs")).unwrap();
        let runtime = RuntimeBuilder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let files = s3s_fs::FileSystem::new(directory.path()).unwrap();
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = service.build();
        let (gate, open) = watch::channel(true);
        let (sent, budget) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(u64::MAX)));
        let behind = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let front = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (addr, hidden) = (front.local_addr().unwrap(), behind.local_addr().unwrap());
        runtime.spawn(async move {
            loop {
                let (stream, _) = behind.accept().await.unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        let (count, left) = (Arc::clone(&sent), Arc::clone(&budget));
        runtime.spawn(async move {
            loop {
                let (client, _) = front.accept().await.unwrap();
                let mut open = open.clone();
                if !*open.borrow() {
                    continue;
                }
                let server = TcpStream::connect(hidden).await.unwrap();
                let (count, left) = (Arc::clone(&count), Arc::clone(&left));
                tokio::spawn(async move {
                    let (mut from_client, mut to_client) = client.into_split();
                    let (mut from_server, mut to_server) = server.into_split();
                    tokio::select! {
                        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
                        () = forward(&mut from_server, &mut to_client, &count, &left) => {}
                        _ = open.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Self { directory, addr, gate, sent, budget, _runtime: runtime }
    }

    /// Closes all connections, and every new one at once.
    pub(crate) fn cut_off(&self) {
        self.gate.send(false).unwrap();
    }

    pub(crate) fn come_back(&self) {
        self.budget.store(u64::MAX, Ordering::Relaxed);
        self.gate.send(true).unwrap();
    }

    /// Lets the store send so many bytes more. After them, each connection is closed.
    pub(crate) fn cut_off_after(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn folder(&self, url: &str) -> Folder {
        self.folder_with(url, SECRET)
    }

    pub(crate) fn folder_with(&self, url: &str, secret: &str) -> Folder {
        folder_at(&self.addr.to_string(), url, secret)
    }

    /// Writes a file of the bucket `docs` into the server's directory.
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        let path = self.directory.path().join("docs").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn bucket(&self) -> std::path::PathBuf {
        self.directory.path().join("docs")
    }
}

pub(crate) fn folder_at(addr: &str, url: &str, secret: &str) -> Folder {
    let endpoint = format!("http://{addr}");
    Folder::with_settings(
        url,
        &[
            ("aws_endpoint_url", &endpoint),
            ("aws_region", "us-east-1"),
            ("aws_access_key_id", KEY),
            ("aws_secret_access_key", secret),
        ],
    )
    .unwrap()
}

async fn forward(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    count: &AtomicU64,
    budget: &AtomicU64,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(bytes @ 1..) = from.read(&mut buffer).await else { return };
        let paid = budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes as u64));
        if paid.is_err() || to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
        count.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The content of all files below a directory.
pub(crate) fn content(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(here) = open.pop() {
        for entry in std::fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_string_lossy().into_owned();
                found.push((name, std::fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
