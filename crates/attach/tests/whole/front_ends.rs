//! A front-end through the C interface: waves, ends, endpoints that are away, and mistakes.

use std::ffi::{CStr, CString, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::time::Duration;
use treefold::operators::packet::Row;
use treefold::{Node, Service};
use treefold_attach::treefold_code::*;
use treefold_attach::*;

/// Longer than any step takes, in milliseconds.
const LONG_MS: i64 = 30_000;

/// A node with three endpoints. Each answers a packet with its number; endpoint 2 answers the first packet only.
struct Scene {
    runtime: tokio::runtime::Runtime,
    node: Option<Node>,
    connection: *mut treefold_connection,
}

impl Scene {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (accepting, acceptor) = treefold::endpoint::accept();
        let service = Service::new("doors").endpoints(0..3, accepting);
        let node = runtime.block_on(Node::builder().service(service).start()).unwrap();
        runtime.spawn(async move {
            while let Some(mut stream) = acceptor.accept().await {
                tokio::spawn(async move {
                    let endpoint = stream.opening().endpoint;
                    let answer = Row::new().u64(endpoint.into()).packet().into_bytes();
                    let mut packets = 0;
                    while let Some(packet) = stream.recv().await {
                        packets += 1;
                        if (endpoint < 2 || packets == 1)
                            && stream.send_tagged(packet.tag, answer.clone()).await.is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        let addr = CString::new(node.addr().to_string()).unwrap();
        let at = [addr.as_ptr()];
        // SAFETY: zero is valid for each of its fields.
        let zero: treefold_connecting = unsafe { zeroed() };
        let connecting = treefold_connecting {
            size: size_of::<treefold_connecting>(),
            at: at.as_ptr(),
            at_count: 1,
            ..zero
        };
        // SAFETY: all of these live through the call.
        let connection = unsafe { treefold_connect(&raw const connecting, null_mut()) };
        assert!(!connection.is_null(), "it connects");
        Self { runtime, node: Some(node), connection }
    }

    fn open(
        &self,
        up_filter: Option<&CStr>,
        time_out_ms: Option<u32>,
        context: usize,
    ) -> *mut treefold_front {
        // SAFETY: zero is valid for each of its fields.
        let zero: treefold_opening = unsafe { zeroed() };
        let opening = treefold_opening {
            size: size_of::<treefold_opening>(),
            service: c"doors".as_ptr(),
            up_filter: up_filter.map_or(null(), CStr::as_ptr),
            synchronisation: u32::from(time_out_ms.is_some()),
            time_out_ms: time_out_ms.unwrap_or(0),
            context: std::ptr::without_provenance_mut::<c_void>(context),
            ..zero
        };
        // SAFETY: all of these live through the call.
        let front = unsafe { treefold_open(self.connection, &raw const opening, null_mut()) };
        assert!(!front.is_null(), "it opens");
        front
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // SAFETY: the handle is used no more.
        unsafe { treefold_disconnect(self.connection) };
        if let Some(node) = self.node.take() {
            self.runtime.block_on(node.shutdown(Duration::from_secs(1)));
        }
    }
}

/// Calls a function with a place for its error; returns its code and its message.
fn said(call: impl FnOnce(*mut treefold_error) -> treefold_code) -> (treefold_code, String) {
    // SAFETY: zero is valid for an error.
    let mut error: treefold_error = unsafe { zeroed() };
    let code = call(&raw mut error);
    // SAFETY: a message ends with a zero and lives as long as the error.
    let message = unsafe { CStr::from_ptr(treefold_error_message(&raw const error)) };
    (code, message.to_str().unwrap().to_owned())
}

fn send(front: *mut treefold_front) -> u64 {
    let mut tag = 0;
    // SAFETY: the handle is open, and the place lives through the call.
    let code = unsafe { treefold_front_send(front, null(), 0, LONG_MS, &raw mut tag, null_mut()) };
    assert_eq!(code, TREEFOLD_OK);
    tag
}

fn recv(front: *mut treefold_front) -> *mut treefold_wave {
    let mut wave = null_mut();
    // SAFETY: the handle is open, and the place lives through the call.
    assert_eq!(unsafe { treefold_front_recv(front, LONG_MS, &raw mut wave, null_mut()) }, TREEFOLD_OK);
    wave
}

#[test]
fn waves_have_their_packets_contributors_and_missing_endpoints_with_reasons() {
    let scene = Scene::new();
    let front = scene.open(None, Some(2_000), 0);
    let numbers =
        |of: unsafe extern "C" fn(*const _, *mut u32, usize, *mut usize, *mut treefold_error) -> _, wave| {
            let (mut numbers, mut count) = ([9; 8], 0);
            // SAFETY: all of these live through the call.
            assert_eq!(unsafe { of(wave, numbers.as_mut_ptr(), 8, &raw mut count, null_mut()) }, TREEFOLD_OK);
            numbers[..count].to_vec()
        };
    // SAFETY: the handle is open, and its waves are freed after their last use; so here and below.
    unsafe {
        let tag = send(front);
        let wave = recv(front);
        let treefold_wave { tag: of, packets, contributors, missing } = *wave;
        assert_eq!((of, packets, contributors, missing), (tag, 3, 3, 0));
        let mut packet = null_mut();
        assert_eq!(treefold_wave_packet(wave, 2, &raw mut packet, null_mut()), TREEFOLD_OK);
        let (code, problem) = said(|error| treefold_wave_packet(wave, 3, &raw mut packet, error));
        assert_eq!((code, problem.as_str()), (TREEFOLD_INVALID, "at: is 3; the wave has 3 packets"));
        assert!(packet.is_null());
        treefold_wave_free(wave);

        send(front);
        let wave = recv(front);
        assert_eq!(numbers(treefold_wave_contributors, wave), [0, 1]);
        assert_eq!(numbers(treefold_wave_missing, wave), [2]);
        let mut reason = null();
        assert_eq!(treefold_wave_reason(wave, 2, &raw mut reason, null_mut()), TREEFOLD_OK);
        assert_eq!(CStr::from_ptr(reason), c"late");
        let (code, problem) = said(|error| treefold_wave_reason(wave, 1, &raw mut reason, error));
        assert_eq!((code, problem.as_str()), (TREEFOLD_INVALID, "endpoint: 1 is not missing from the wave"));
        let mut count = 0;
        let code = treefold_wave_contributors(wave, null_mut(), 0, &raw mut count, null_mut());
        assert_eq!((code, count), (TREEFOLD_NO_ROOM, 2));
        treefold_wave_free(wave);
        treefold_front_close(front);
    }
}

#[test]
fn one_call_receives_from_every_stream_and_tells_of_their_ends() {
    let mut scene = Scene::new();
    let (sum, max) = (scene.open(Some(c"sum"), Some(200), 7), scene.open(Some(c"max"), Some(200), 8));
    let any = |timeout_ms| {
        let (mut context, mut wave) = (null_mut(), null_mut());
        // SAFETY: the connection is open, and the places live through the call.
        let code = unsafe {
            treefold_recv_any(scene.connection, timeout_ms, &raw mut context, &raw mut wave, null_mut())
        };
        // SAFETY: the wave is used no more; null is ignored.
        unsafe { treefold_wave_free(wave) };
        (code, context.addr())
    };
    assert_eq!(any(0).0, TREEFOLD_AGAIN);
    send(sum);
    assert_eq!(any(LONG_MS), (TREEFOLD_OK, 7));
    send(max);
    assert_eq!(any(LONG_MS), (TREEFOLD_OK, 8));
    // SAFETY: the connection is open.
    assert!(unsafe { treefold_connection_fd(scene.connection) } >= 0);
    // SAFETY: as above.
    assert_eq!(unsafe { treefold_connection_clear(scene.connection, null_mut()) }, TREEFOLD_OK);
    scene.node.take().unwrap().abort();
    // SAFETY: the handles are open, and are used no more afterwards.
    unsafe {
        treefold_front_close(sum);
        treefold_front_close(max);
    }
}

#[test]
fn mistakes_are_refused_by_name() {
    let scene = Scene::new();
    let open = |change: &dyn Fn(&mut treefold_opening)| {
        // SAFETY: zero is valid for each of its fields.
        let mut opening: treefold_opening = unsafe { zeroed() };
        (opening.size, opening.service) = (size_of::<treefold_opening>(), c"doors".as_ptr());
        change(&mut opening);
        // SAFETY: all of these live through the call.
        said(|error| unsafe {
            assert!(treefold_open(scene.connection, &raw const opening, error).is_null());
            (*error).code
        })
    };
    for (change, says) in [
        (&(|it: &mut treefold_opening| it.service = null()) as &dyn Fn(&mut _), "opening.service: is null"),
        (&|it: &mut treefold_opening| it.synchronisation = 3, "opening.synchronisation: is 3"),
        (&|it: &mut treefold_opening| it.params_len = 1, "opening.params: is null"),
        (&|it: &mut treefold_opening| it.size = 8, "opening.size: is 8"),
        (&|it: &mut treefold_opening| it.up_filter = c"unheard-of".as_ptr(), "unheard-of"),
        (&|it: &mut treefold_opening| it.service = c"windows".as_ptr(), "windows"),
    ] {
        let (code, problem) = open(change);
        assert_eq!(code, TREEFOLD_INVALID, "{problem}");
        assert!(problem.contains(says), "{problem}");
    }
    // SAFETY: null is refused everywhere.
    unsafe {
        assert!(treefold_connect(null(), null_mut()).is_null());
        assert_eq!(treefold_connection_fd(null()), -1);
        assert_eq!(treefold_front_recv(null(), 0, null_mut(), null_mut()), TREEFOLD_INVALID);
        assert_eq!(treefold_front_send(null(), null(), 0, 0, null_mut(), null_mut()), TREEFOLD_INVALID);
        treefold_wave_free(null_mut());
        treefold_front_close(null_mut());
        treefold_disconnect(null_mut());
    }
}

#[test]
fn network_that_does_not_answer_is_an_error_in_time() {
    // SAFETY: zero is valid for each of its fields.
    let zero: treefold_connecting = unsafe { zeroed() };
    let at = [c"127.0.0.1:1".as_ptr()];
    let connecting = treefold_connecting {
        size: size_of::<treefold_connecting>(),
        at: at.as_ptr(),
        at_count: 1,
        timeout_ms: 200,
        ..zero
    };
    // SAFETY: all of these live through the call.
    let (code, problem) = said(|error| unsafe {
        assert!(treefold_connect(&raw const connecting, error).is_null());
        (*error).code
    });
    assert_eq!(code, TREEFOLD_UNREACHABLE, "{problem}");
}
