//! Somebody between two processes: passes bytes and datagrams on, records them, and drops them.
//!
//! A node behind a relay listens at one address and advertises the relay's. So everything that others send to it passes the
//! relay. The dialler of a plain connection is known by its greeting, and the sender of a datagram by its socket. So two nodes
//! can be cut from each other alone.

use crate::finding::Setback;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use treefold::parts::wire::{Inbox, Incoming};
use treefold_core::limits::Limits;

/// Time after which a relay's thread looks whether it must end.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const BUFFER_BYTES: usize = 64 << 10;
/// The most that one relay records.
const RECORDS_MAX: usize = 4_096;

/// A relay. Dropping it ends its connections.
pub(crate) struct Relay {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: SocketAddr,
    /// Sockets of which datagrams are dropped; `None` drops all.
    no_datagrams_of: Mutex<Option<BTreeSet<SocketAddr>>>,
    /// Nodes of which connections are stopped, by the address in their greeting.
    no_bytes_of: Mutex<BTreeSet<SocketAddr>>,
    datagrams: Mutex<Vec<Vec<u8>>>,
    /// The bytes that diallers have sent, by connection.
    dialled: Mutex<Vec<Vec<u8>>>,
    is_over: AtomicBool,
}

impl Relay {
    /// Listens at `addr` for TCP and UDP, and passes everything on to `target`.
    pub(crate) fn start(addr: SocketAddr, target: SocketAddr) -> Result<Self, Setback> {
        let failed = || Setback::doing(format!("relay at {addr}"));
        let listener = TcpListener::bind(addr).map_err(failed())?;
        listener.set_nonblocking(true).map_err(failed())?;
        let socket = UdpSocket::bind(listener.local_addr().map_err(failed())?).map_err(failed())?;
        socket.set_read_timeout(Some(LOOK_INTERVAL)).map_err(failed())?;
        let addr = listener.local_addr().map_err(failed())?;
        let shared = Arc::new(Shared {
            target,
            no_datagrams_of: Mutex::new(Some(BTreeSet::new())),
            no_bytes_of: Mutex::default(),
            datagrams: Mutex::default(),
            dialled: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let of_tcp = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &of_tcp));
        let of_udp = Arc::clone(&shared);
        thread::spawn(move || pass_datagrams(&Arc::new(socket), &of_udp));
        Ok(Self { addr, shared })
    }

    /// Drops all datagrams from now on.
    pub(crate) fn drop_datagrams(&self) {
        *lock(&self.shared.no_datagrams_of) = None;
    }

    /// Drops the datagrams of one socket from now on.
    pub(crate) fn drop_datagrams_of(&self, socket: SocketAddr) {
        lock(&self.shared.no_datagrams_of).get_or_insert_default().insert(socket);
    }

    /// Stops all connections that the node of this name has dialled or will dial. They stay open.
    pub(crate) fn stop_bytes_of(&self, node: SocketAddr) {
        lock(&self.shared.no_bytes_of).insert(node);
    }

    /// The recorded datagrams.
    pub(crate) fn datagrams(&self) -> Vec<Vec<u8>> {
        lock(&self.shared.datagrams).clone()
    }

    /// The recorded bytes of diallers, by connection.
    pub(crate) fn dialled(&self) -> Vec<Vec<u8>> {
        lock(&self.shared.dialled).clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn passes_datagrams_of(&self, socket: SocketAddr) -> bool {
        lock(&self.no_datagrams_of).as_ref().is_some_and(|dropped| !dropped.contains(&socket))
    }

    fn is_stopped(&self, dialler: Option<SocketAddr>) -> bool {
        dialler.is_some_and(|dialler| lock(&self.no_bytes_of).contains(&dialler))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_over() {
        match listener.accept() {
            Ok((stream, _)) => {
                let shared = Arc::clone(shared);
                thread::spawn(move || pass_connection(stream, &shared));
            }
            Err(_) => thread::sleep(LOOK_INTERVAL),
        }
    }
}

/// Passes one connection on. Its dialler is known by the first frame, if that is plain.
fn pass_connection(mut near: TcpStream, shared: &Arc<Shared>) -> Option<()> {
    near.set_nonblocking(false).ok()?;
    near.set_read_timeout(Some(LOOK_INTERVAL)).ok()?;
    near.set_nodelay(true).ok()?;
    let (mut inbox, mut first, mut buffer) = (Inbox::new(Limits::DEFAULT), Vec::new(), vec![0; BUFFER_BYTES]);
    let dialler = loop {
        match near.read(&mut buffer) {
            Ok(0) => return None,
            Ok(read) => {
                first.extend_from_slice(&buffer[..read]);
                inbox.put(&buffer[..read]);
                match inbox.next() {
                    Ok(Some(Incoming::Hello(hello))) => break Some(hello.node.addr),
                    Ok(None) => {}
                    Ok(Some(_)) | Err(_) => break None,
                }
            }
            Err(error) if crate::wire::is_pause(&error) && !shared.is_over() => {}
            Err(_) => return None,
        }
    };
    let record = {
        let mut dialled = lock(&shared.dialled);
        (dialled.len() < RECORDS_MAX).then(|| dialled.push(first.clone())).map(|()| dialled.len() - 1)
    };
    while shared.is_stopped(dialler) {
        if shared.is_over() {
            return None;
        }
        thread::sleep(LOOK_INTERVAL);
    }
    let mut far = TcpStream::connect(shared.target).ok()?;
    far.set_read_timeout(Some(LOOK_INTERVAL)).ok()?;
    far.set_nodelay(true).ok()?;
    far.write_all(&first).ok()?;
    let (near_end, far_end) = (near.try_clone().ok()?, far.try_clone().ok()?);
    let back = Arc::clone(shared);
    thread::spawn(move || pump(far_end, near_end, &back, dialler, None));
    pump(near, far, shared, dialler, record);
    Some(())
}

/// Passes bytes on in one direction until the end.
fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    shared: &Shared,
    dialler: Option<SocketAddr>,
    record: Option<usize>,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while !shared.is_over() {
        if shared.is_stopped(dialler) {
            thread::sleep(LOOK_INTERVAL);
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                if let Some(record) = record {
                    lock(&shared.dialled)[record].extend_from_slice(&buffer[..read]);
                }
                if to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            Err(error) if crate::wire::is_pause(&error) => {}
            Err(_) => break,
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Passes datagrams on. Each sender has a socket towards the target, so that answers find the way back.
fn pass_datagrams(socket: &Arc<UdpSocket>, shared: &Arc<Shared>) {
    let mut senders: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    while !shared.is_over() {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let datagram = &buffer[..length];
        {
            let mut recorded = lock(&shared.datagrams);
            if recorded.len() < RECORDS_MAX {
                recorded.push(datagram.to_vec());
            }
        }
        if !shared.passes_datagrams_of(from) {
            continue;
        }
        let towards = match senders.get(&from) {
            Some(towards) => Arc::clone(towards),
            None => {
                let Ok(towards) = answering(socket, from, shared) else { continue };
                senders.insert(from, Arc::clone(&towards));
                towards
            }
        };
        let _ = towards.send(datagram);
    }
}

/// A socket towards the target whose answers go back to `from`.
fn answering(socket: &Arc<UdpSocket>, from: SocketAddr, shared: &Arc<Shared>) -> io::Result<Arc<UdpSocket>> {
    let towards = Arc::new(UdpSocket::bind("127.0.0.1:0")?);
    towards.connect(shared.target)?;
    towards.set_read_timeout(Some(LOOK_INTERVAL))?;
    let (receiving, back, shared) = (Arc::clone(&towards), Arc::clone(socket), Arc::clone(shared));
    thread::spawn(move || {
        let mut buffer = vec![0; BUFFER_BYTES];
        while !shared.is_over() {
            if let Ok(length) = receiving.recv(&mut buffer)
                && shared.passes_datagrams_of(from)
            {
                let _ = back.send_to(&buffer[..length], from);
            }
        }
    });
    Ok(towards)
}
