//! Streams through the C interface.

use super::bed::{Bed, HOLDERS};
use super::streams::{EVERY, Mode, Sender, TIME_OUT, Wave};
use std::ffi::{CStr, CString};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::thread;
use std::time::Instant;
use treefold::PartitionSet;
use treefold_attach::treefold_code::{TREEFOLD_AGAIN, TREEFOLD_OK};
use treefold_attach::*;

/// A connection and a stream of its. It goes to the thread that uses it.
struct Front {
    connection: *mut treefold_connection,
    stream: *mut treefold_front,
}

// SAFETY: the functions of both may be called from any thread.
unsafe impl Send for Front {}

impl Drop for Front {
    fn drop(&mut self) {
        // SAFETY: the handles are open, and used no more.
        unsafe {
            treefold_front_close(self.stream);
            treefold_disconnect(self.connection);
        }
    }
}

/// Opens a stream, and reads its waves on a thread of its own until nobody takes them.
pub(crate) fn stream(bed: &Bed, mode: &Mode, waves: Sender) {
    let front = open(bed, mode);
    thread::spawn(move || {
        let front = front;
        loop {
            let until = Instant::now() + EVERY;
            front.send();
            while let Some(wave) = front.next(until) {
                if waves.send(wave).is_err() {
                    return;
                }
            }
        }
    });
}

fn open(bed: &Bed, mode: &Mode) -> Front {
    let text = |text: &str| CString::new(text).expect("no zero");
    let (addr, token) = (text(&bed.front), bed.token().map(text));
    let at = [addr.as_ptr()];
    // SAFETY: zero is valid for each field; what they point to lives through the calls.
    unsafe {
        let mut connecting: treefold_connecting = zeroed();
        connecting.size = size_of::<treefold_connecting>();
        (connecting.at, connecting.at_count) = (at.as_ptr(), at.len());
        connecting.token = token.as_ref().map_or(null(), |token| token.as_ptr());
        let connection = treefold_connect(&raw const connecting, null_mut());
        assert!(!connection.is_null(), "it connects");
        let mut opening: treefold_opening = zeroed();
        opening.size = size_of::<treefold_opening>();
        (opening.service, opening.up_filter) = (c"echo".as_ptr(), c"count".as_ptr());
        (opening.synchronisation, opening.time_out_ms) = match mode {
            Mode::All => (0, 0),
            Mode::Timed => (1, TIME_OUT.as_millis() as u32),
            Mode::Single => (2, 0),
            Mode::Operator(_) => panic!("invariant: C sends no operators"),
        };
        let stream = treefold_open(connection, &raw const opening, null_mut());
        assert!(!stream.is_null(), "it opens");
        Front { connection, stream }
    }
}

impl Front {
    fn send(&self) {
        // SAFETY: the stream is open.
        let sent = unsafe { treefold_front_send(self.stream, b"x".as_ptr(), 1, -1, null_mut(), null_mut()) };
        assert_eq!(sent, TREEFOLD_OK);
    }

    /// The next wave; none if it does not come in time.
    fn next(&self, until: Instant) -> Option<Wave> {
        let mut wave = null_mut();
        let left = until.saturating_duration_since(Instant::now()).as_millis() as i64;
        // SAFETY: the stream is open, and the place lives through the call.
        match unsafe { treefold_front_recv(self.stream, left, &raw mut wave, null_mut()) } {
            TREEFOLD_OK => Some(read(wave)),
            TREEFOLD_AGAIN => None,
            code => panic!("{code:?}"),
        }
    }
}

/// Reads a wave, and frees it.
fn read(wave: *mut treefold_wave) -> Wave {
    // SAFETY: the wave and its packets are freed after their last use, and the places live through the calls.
    unsafe {
        let contributors =
            numbers(|to, room, count| treefold_wave_contributors(wave, to, room, count, null_mut()));
        let missing = numbers(|to, room, count| treefold_wave_missing(wave, to, room, count, null_mut()));
        let missing = missing.into_iter().map(|id| {
            let mut reason = null();
            assert_eq!(treefold_wave_reason(wave, id, &raw mut reason, null_mut()), TREEFOLD_OK);
            let reason = CStr::from_ptr(reason).to_str().expect("UTF-8");
            (id, reason.split(':').next().unwrap_or_default().to_owned())
        });
        let missing = missing.collect();
        let counted = (0..(*wave).packets).map(|at| {
            let (mut packet, mut count) = (null_mut(), 0);
            assert_eq!(treefold_wave_packet(wave, at, &raw mut packet, null_mut()), TREEFOLD_OK);
            assert_eq!(treefold_packet_u64(packet, 0, &raw mut count, null_mut()), TREEFOLD_OK);
            treefold_packet_free(packet);
            count as usize
        });
        let counted = counted.sum();
        treefold_wave_free(wave);
        Wave::new(contributors.into_iter().collect::<PartitionSet>(), missing, counted)
    }
}

/// The numbers of endpoints that a function copies out.
fn numbers(copy: impl FnOnce(*mut u32, usize, *mut usize) -> treefold_code) -> Vec<u32> {
    let (mut numbers, mut count) = ([0; HOLDERS as usize], 0);
    assert_eq!(copy(numbers.as_mut_ptr(), numbers.len(), &raw mut count), TREEFOLD_OK);
    numbers[..count].to_vec()
}
