//! The paper's load index manager (§4): a process that knows the number of open calls of each server.
//!
//! A front asks it for a server before each call, and tells it when the call has ended, each over a TCP connection that stays
//! open. A front of Treefold can't ask it, so the caller has one connection for each front and asks in its place.
//!
//! A message is a byte for its kind and eight bytes: a lot that decides between servers with equally few open calls, or the
//! server whose call has ended. The answer is the number of a server. When a connection closes, its open calls end.

use super::series::{LoadIndex, Placed};
use std::io;
use std::net::SocketAddr;
use std::process::{ExitCode, Stdio};
use std::rc::Rc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::task::{LocalSet, spawn_local};
use treefold_cli::exit::{Failure, Verdict};

/// The word that makes this program a load index manager.
const WORD: &str = "load-index";
/// A front asks for a server.
const PLACE: u8 = 0;
/// A call has ended.
const END: u8 = 1;

/// Runs this process as the manager if its arguments say so.
pub(crate) fn process() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != WORD {
        return None;
    }
    let servers = words.next()?.to_str()?.parse().ok()?;
    // The benchmark holds the other end of standard input, which closes when it ends.
    std::thread::spawn(|| {
        // An error means that the other end is gone, too.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(0);
    });
    let served = treefold_cli::on_runtime(async {
        let served = LocalSet::new().run_until(serve(servers)).await;
        served.map_err(|error| failed(&error)).map(|()| Verdict::Full)
    });
    Some(served.map_or_else(|_| ExitCode::FAILURE, |_| ExitCode::SUCCESS))
}

async fn serve(servers: u32) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let index = LoadIndex::new(servers);
    loop {
        let (stream, _) = listener.accept().await?;
        spawn_local(converse(stream, Rc::clone(&index)));
    }
}

/// Answers a front until it closes the connection.
async fn converse(mut stream: TcpStream, index: Rc<LoadIndex>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut open: Vec<Placed> = Vec::new();
    loop {
        let mut message = [0; 9];
        stream.read_exact(&mut message).await?;
        let [kind, word @ ..] = message;
        let word = u64::from_be_bytes(word);
        let server = if kind == PLACE {
            let placed = index.place(word);
            let server = placed.server();
            open.push(placed);
            server
        } else {
            let ended = open.iter().position(|placed| u64::from(placed.server()) == word);
            ended.map_or(0, |at| open.swap_remove(at).server())
        };
        stream.write_u32(server).await?;
    }
}

/// The manager's process, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct IndexProcess {
    child: Child,
    addr: SocketAddr,
}

impl IndexProcess {
    pub(super) async fn start(servers: u32) -> Result<Self, Failure> {
        Self::spawned(servers).await.map_err(|error| failed(&error))
    }

    async fn spawned(servers: u32) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([WORD, &servers.to_string()]).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().expect("invariant: spawned with a pipe for its output");
        let line = BufReader::new(stdout).lines().next_line().await?;
        let addr = line.and_then(|line| line.parse().ok());
        let addr = addr.ok_or_else(|| io::Error::other("its process printed no address"))?;
        Ok(Self { child, addr })
    }

    /// Returns the id of its process.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Connects each of so many fronts.
    pub(super) async fn connect(&self, fronts: usize) -> Result<Rc<IndexClient>, Failure> {
        let mut streams = Vec::new();
        for _ in 0..fronts {
            let stream = TcpStream::connect(self.addr).await.map_err(|error| failed(&error))?;
            stream.set_nodelay(true).map_err(|error| failed(&error))?;
            streams.push(Mutex::new(stream));
        }
        Ok(Rc::new(IndexClient(streams)))
    }
}

fn failed(error: &io::Error) -> Failure {
    Failure::failed(format!("the load index manager failed: {error}"))
}

/// One connection for each front.
#[derive(Debug)]
pub(super) struct IndexClient(Vec<Mutex<TcpStream>>);

impl IndexClient {
    /// Asks for the server with the fewest open calls, where the manager then counts one more. `lot` decides between several.
    pub(super) async fn place(&self, front: usize, lot: u64) -> Result<u32, Failure> {
        self.exchange(front, PLACE, lot).await.map_err(|error| failed(&error))
    }

    /// Tells the manager that a call has ended. Nobody waits for its answer.
    pub(super) fn end(self: Rc<Self>, front: usize, server: u32) {
        spawn_local(async move { self.exchange(front, END, server.into()).await });
    }

    async fn exchange(&self, front: usize, kind: u8, word: u64) -> io::Result<u32> {
        let mut message = [kind; 9];
        message[1..].copy_from_slice(&word.to_be_bytes());
        let mut stream = self.0[front].lock().await;
        stream.write_all(&message).await?;
        stream.read_u32().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fronts_of_one_manager_see_each_other_s_calls_until_they_end_or_leave() {
        let talk = async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let index = LoadIndex::new(2);
            let mut fronts = Vec::new();
            for _ in 0..2 {
                fronts.push(Mutex::new(TcpStream::connect(addr).await.unwrap()));
                spawn_local(converse(listener.accept().await.unwrap().0, Rc::clone(&index)));
            }
            let mut fronts = IndexClient(fronts);
            let (first, second) = (fronts.place(0, 7).await.unwrap(), fronts.place(1, 7).await.unwrap());
            assert_ne!(first, second);
            fronts.exchange(0, END, first.into()).await.unwrap();
            assert_eq!(fronts.place(0, 1).await.unwrap(), first);
            drop(fronts.0.remove(1));
            while fronts.place(0, 1).await.unwrap() != second {
                fronts.exchange(0, END, first.into()).await.unwrap();
            }
        };
        LocalSet::new().run_until(talk).await;
    }
}
