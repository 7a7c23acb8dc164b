//! A small DNS server for tests: it answers questions for A, AAAA and SRV records over UDP and TCP from a zone that the test
//! changes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const A: u16 = 1;
const SRV: u16 = 33;
/// Longest answer over UDP. A longer one is cut, and asked for again over TCP.
const DATAGRAM_MAX: usize = 512;

/// The manner of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reply {
    #[default]
    Honest,
    Garbage,
    Silence,
}

/// The records of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zone {
    /// The addresses of every name that begins with `nodes`.
    pub(crate) addrs: Vec<Ipv4Addr>,
    /// The ports of the SRV records of `_treefold._tcp.nodes…`, whose target is the name with these addresses.
    pub(crate) ports: Vec<u16>,
    pub(crate) reply: Reply,
}

/// A running server. Its threads end with the test's process.
pub(crate) struct NameServer {
    addr: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    asked: Arc<AtomicUsize>,
}

impl NameServer {
    pub(crate) fn start(zone: Zone) -> Self {
        // The same port for both protocols.
        let (udp, tcp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let addr = udp.local_addr().unwrap();
        let server = Self { addr, zone: Arc::new(Mutex::new(zone)), asked: Arc::default() };
        let (zone, asked) = (Arc::clone(&server.zone), Arc::clone(&server.asked));
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut question) {
                asked.fetch_add(1, Ordering::Relaxed);
                let zone = zone.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(mut answer) = answer(&question[..length], &zone) {
                    if answer.len() > DATAGRAM_MAX {
                        answer.truncate(question_end(&question[..length]).unwrap());
                        // The bit for a cut answer, and no records.
                        answer[2] |= 2;
                        answer[6..12].fill(0);
                    }
                    let _ = udp.send_to(&answer, from);
                }
            }
        });
        let zone = Arc::clone(&server.zone);
        std::thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let zone = Arc::clone(&zone);
                std::thread::spawn(move || serve(stream, &zone));
            }
        });
        server
    }

    pub(crate) fn addr(&self) -> String {
        self.addr.to_string()
    }

    /// Questions so far.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zone.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Answers the questions of a connection.
fn serve(mut stream: TcpStream, zone: &Mutex<Zone>) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut question).is_err() {
            return;
        }
        let zone = zone.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(answer) = answer(&question, &zone) else { return };
        let length = u16::try_from(answer.len()).expect("an answer fits into a message");
        if stream.write_all(&length.to_be_bytes()).and_then(|()| stream.write_all(&answer)).is_err() {
            return;
        }
    }
}

/// The end of the question in a message.
fn question_end(message: &[u8]) -> Option<usize> {
    let mut at = 12;
    loop {
        match *message.get(at)? {
            0 => return Some(at + 5),
            length => at += 1 + usize::from(length),
        }
    }
}

/// The labels of a question's name.
fn labels(message: &[u8]) -> Vec<String> {
    let (mut at, mut labels) = (12, Vec::new());
    while message[at] != 0 {
        let length = usize::from(message[at]);
        labels.push(String::from_utf8_lossy(&message[at + 1..at + 1 + length]).to_lowercase());
        at += 1 + length;
    }
    labels
}

/// A whole answer, or `None` for silence.
fn answer(message: &[u8], zone: &Zone) -> Option<Vec<u8>> {
    match zone.reply {
        Reply::Silence => return None,
        Reply::Garbage => return Some([&message[..2.min(message.len())], &[0xff; 60]].concat()),
        Reply::Honest => {}
    }
    let end = question_end(message)?;
    let kind = u16::from_be_bytes([message[end - 4], message[end - 3]]);
    let labels = labels(message);
    let is_service = labels.first().is_some_and(|label| label == "_treefold");
    let is_known = is_service || labels.first().is_some_and(|label| label == "nodes");
    let records: Vec<Vec<u8>> = match kind {
        A if is_known && !is_service => zone.addrs.iter().map(|addr| addr.octets().to_vec()).collect(),
        SRV if is_service => zone.ports.iter().map(|port| service(&message[12..end - 4], *port)).collect(),
        _ => Vec::new(),
    };
    let mut answer = message[..end].to_vec();
    answer[2] |= 0x84;
    // The name is unknown if it has no record of any kind.
    let is_empty = zone.addrs.is_empty() && zone.ports.is_empty();
    answer[3] = if is_known && !is_empty { 0x80 } else { 0x83 };
    answer[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    answer[6..8].copy_from_slice(&u16::try_from(records.len()).expect("a number of records").to_be_bytes());
    for record in records {
        // The question's name, by its place in the message; one second to live.
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 1]);
        answer.extend(u16::try_from(record.len()).expect("a short record").to_be_bytes());
        answer.extend(record);
    }
    Some(answer)
}

/// An SRV record whose target is the question's name without its first two labels.
fn service(name: &[u8], port: u16) -> Vec<u8> {
    let first = 1 + usize::from(name[0]);
    let second = first + 1 + usize::from(name[first]);
    [&[0, 0, 0, 0][..], &port.to_be_bytes(), &name[second..]].concat()
}
