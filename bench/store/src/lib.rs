//! An object store that speaks S3 on one machine, over a directory, for tests and trials.
//!
//! Each folder of the directory is a bucket. The store stands behind a proxy that counts what it sends and can cut it off.

#![allow(missing_docs, reason = "serves this repository's own tests")]

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};
use tokio::sync::watch;

pub const KEY: &str = "treefold";
pub const SECRET: &str = "treefold-secret";
pub const REGION: &str = "us-east-1";

/// A running store.
#[derive(Debug)]
pub struct Store {
    addr: SocketAddr,
    /// False while the store is cut off.
    gate: watch::Sender<bool>,
    sent: Arc<AtomicU64>,
    /// Bytes that it may still send.
    budget: Arc<AtomicU64>,
    _runtime: Runtime,
}

impl Store {
    /// Starts a store over a directory.
    pub fn start(directory: &Path, addr: &str) -> io::Result<Self> {
        let runtime = RuntimeBuilder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let files =
            s3s_fs::FileSystem::new(directory).map_err(|error| io::Error::other(format!("{error:?}")))?;
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = service.build();
        let (gate, open) = watch::channel(true);
        let (sent, budget) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(u64::MAX)));
        let behind = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let front = runtime.block_on(TcpListener::bind(addr))?;
        let (addr, hidden) = (front.local_addr()?, behind.local_addr()?);
        runtime.spawn(async move {
            while let Ok((stream, _)) = behind.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    // A client that goes away ends its connection, and nothing else.
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        let (count, left) = (Arc::clone(&sent), Arc::clone(&budget));
        runtime.spawn(async move {
            while let Ok((client, _)) = front.accept().await {
                let mut open = open.clone();
                if !*open.borrow() {
                    continue;
                }
                let (count, left) = (Arc::clone(&count), Arc::clone(&left));
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(hidden).await else { return };
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
        Ok(Self { addr, gate, sent, budget, _runtime: runtime })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The variables with which its clients find it.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.addr)),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
    }

    /// Closes all connections, and every new one at once.
    pub fn cut_off(&self) {
        self.gate.send_replace(false);
    }

    /// Lets the store send so many bytes more. After them, each connection is closed.
    pub fn cut_off_after(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::Relaxed);
    }

    pub fn come_back(&self) {
        self.budget.store(u64::MAX, Ordering::Relaxed);
        self.gate.send_replace(true);
    }

    /// Bytes that it has sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// Forwards what the store sends, until the budget is used up.
async fn forward(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    count: &AtomicU64,
    budget: &AtomicU64,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(bytes @ 1..) = from.read(&mut buffer).await else { return };
        let paid =
            budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes as u64));
        if paid.is_err() || to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
        count.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
