//! Links whose frames take time: a thread of this program between each host and its switch.
//!
//! ```text
//!   host: eth0 (tap) ⇄ delayer ⇄ (tap) port: switch
//! ```
//!
//! Both ends of such a link are TAP interfaces. The thread reads the frames that an end sends, holds
//! each for the delay, and writes it to the other end. The kernel could do this with netem, which many kernels are built
//! without; /dev/net/tun is almost everywhere. A frame passes two links between two hosts, and is held on each.
//!
//! Frames leave in the order in which they came, also if the delay is made shorter meanwhile.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The kernel's device for interfaces whose frames a program carries.
const TUN: &str = "/dev/net/tun";

/// Frames that are held at once; further ones are dropped, as by a switch with full buffers.
const HELD_MAX: usize = 65_536;

/// Frames taken from an end before the others have their turn.
const TAKEN_PER_TURN_MAX: usize = 32;

/// Bytes of the largest frame: the payload of an Ethernet frame, the header, and a tag.
const FRAME_BYTES_MAX: usize = 1_500 + 14 + 4;

/// The longest name of an interface, with the zero byte after it.
const NAME_BYTES_MAX: usize = 16;

/// One end of a link.
pub(crate) type End = File;

/// Makes a TAP interface in the namespace of this thread. It is removed when the end is closed.
pub(crate) fn end(name: &str) -> io::Result<End> {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(TUN);
    let end = opened.map_err(|error| io::Error::new(error.kind(), format!("can't open {TUN}: {error}")))?;
    assert!(name.len() < NAME_BYTES_MAX, "invariant: interfaces of this program have short names");
    // SAFETY: all bytes zero are a valid request without a name and without flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (byte, letter) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *byte = letter.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the kernel reads and writes the request, which outlives the call.
    match unsafe { libc::ioctl(end.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(end),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Delays the frames of all links of a network. Dropped, it ends, and the links with it.
#[derive(Debug)]
pub(crate) struct Delayer {
    delay_ns: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
    /// Closed to end the thread.
    running: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Delayer {
    /// Starts to pass frames between the two ends of each link, without a delay.
    pub(crate) fn start(links: Vec<[End; 2]>) -> io::Result<Self> {
        let (ended, running) = io::pipe()?;
        let (delay_ns, dropped) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let held = Held {
            ends: links.into_iter().flatten().collect(),
            frames: VecDeque::new(),
            spare: Vec::new(),
            delay_ns: Arc::clone(&delay_ns),
            dropped: Arc::clone(&dropped),
        };
        let thread =
            std::thread::Builder::new().name("delayer".to_owned()).spawn(move || held.pass(&ended))?;
        Ok(Self { delay_ns, dropped, running: Some(running), thread: Some(thread) })
    }

    /// Sets the time for which each frame is held that comes from now on.
    pub(crate) fn set_delay(&self, delay: Duration) {
        self.delay_ns.store(delay.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Drop for Delayer {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            eprintln!("treefold-testbed: the links' delayer was full and dropped {dropped} frames");
        }
    }
}

/// The delayer's thread: its ends and the frames that it holds, the oldest first.
struct Held {
    /// The ends of one link are neighbours.
    ends: Vec<End>,
    frames: VecDeque<Frame>,
    /// Used again for the next frames.
    spare: Vec<Vec<u8>>,
    delay_ns: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
}

struct Frame {
    due_at: Instant,
    /// The place of the end that it goes to.
    to: usize,
    bytes: Vec<u8>,
}

impl Held {
    /// Passes frames until the other end of `ended` is closed.
    fn pass(mut self, ended: &PipeReader) {
        let watched = |descriptor: RawFd| libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        let mut polled: Vec<libc::pollfd> = self.ends.iter().map(|end| watched(end.as_raw_fd())).collect();
        polled.push(watched(ended.as_raw_fd()));
        loop {
            let next =
                self.frames.front().map(|frame| frame.due_at.saturating_duration_since(Instant::now()));
            wait(&mut polled, next);
            let (over, ends) = polled.split_last().expect("invariant: there is the pipe");
            if over.revents != 0 {
                return;
            }
            for (from, end) in ends.iter().enumerate() {
                if end.revents != 0 {
                    self.take(from);
                }
            }
            self.give();
        }
    }

    /// Takes the frames that an end has sent.
    fn take(&mut self, from: usize) {
        for _ in 0..TAKEN_PER_TURN_MAX {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.resize(FRAME_BYTES_MAX, 0);
            match (&self.ends[from]).read(&mut bytes) {
                Ok(length) if self.frames.len() < HELD_MAX => {
                    bytes.truncate(length);
                    let due_at = Instant::now() + Duration::from_nanos(self.delay_ns.load(Ordering::Relaxed));
                    self.frames.push_back(Frame { due_at, to: from ^ 1, bytes });
                }
                Ok(_) => {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    self.spare.push(bytes);
                }
                // There are no more, or the interface is down.
                Err(_) => {
                    self.spare.push(bytes);
                    return;
                }
            }
        }
    }

    /// Gives the frames that are due to the ends that they go to.
    fn give(&mut self) {
        let now = Instant::now();
        while self.frames.front().is_some_and(|frame| frame.due_at <= now) {
            let Some(frame) = self.frames.pop_front() else { return };
            // An interface that is down loses the frame, as a wire without a receiver does.
            let _ = (&self.ends[frame.to]).write(&frame.bytes);
            self.spare.push(frame.bytes);
        }
    }
}

/// Waits until a descriptor is ready, or for this long.
fn wait(polled: &mut [libc::pollfd], longest: Option<Duration>) {
    let timeout = longest.map(|longest| libc::timespec {
        tv_sec: longest.as_secs().cast_signed(),
        tv_nsec: i64::from(longest.subsec_nanos()),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel reads the time, and reads and writes as many entries as there are; both outlive the call.
    let ready =
        unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout, std::ptr::null()) };
    if ready < 0 {
        // Interrupted: nothing is ready yet.
        polled.iter_mut().for_each(|entry| entry.revents = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{HostPlan, Network};
    use std::net::UdpSocket;

    /// Two links there and two back.
    const LINKS_PASSED: u32 = 4;
    const DELAY: Duration = Duration::from_millis(30);

    fn host(name: &str) -> HostPlan {
        HostPlan { name: name.to_owned(), rack: 0, mbit: 100 }
    }

    #[test]
    fn a_frame_is_held_on_every_link_that_it_passes() {
        let Ok(network) = Network::new(&[host("front0"), host("back0")], 100, true) else {
            return eprintln!(
                "SKIPPED: this machine, or this user, can't make network namespaces or TAP interfaces"
            );
        };
        let bound = |name: &str| {
            let host = network.host(name);
            host.space.run(|| UdpSocket::bind((host.address.as_str(), 7_700)).unwrap()).unwrap()
        };
        let (front, back) = (bound("front0"), bound("back0"));
        front.connect(back.local_addr().unwrap()).unwrap();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut byte = [0];
                for _ in 0..2 {
                    let (_, from) = back.recv_from(&mut byte).unwrap();
                    back.send_to(&byte, from).unwrap();
                }
            });
            let asked = |byte: u8| {
                let began = Instant::now();
                front.send(&[byte]).unwrap();
                let mut answer = [0];
                front.recv(&mut answer).unwrap();
                assert_eq!(answer, [byte]);
                began.elapsed()
            };
            // The first datagram finds the addresses of the links.
            asked(1);
            network.set_delay(DELAY);
            // A frame can be late on a busy machine, and must not be early.
            let took = asked(2);
            assert!(took >= DELAY * LINKS_PASSED, "{took:?}");
        });
    }
}
