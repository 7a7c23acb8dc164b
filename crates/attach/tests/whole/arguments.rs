//! Mistakes of a C program, and the errors that it gets.

use std::ffi::CStr;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{null, null_mut};
use std::time::Duration;
use treefold::operators::packet::Row;
use treefold::{Node, Stream};
use treefold_attach::treefold_code::{self, *};
use treefold_attach::*;

/// Longer than any step takes, in milliseconds.
const LONG_MS: i64 = 30_000;

/// Calls a function with a place for its error; returns its code and its message.
fn said(call: impl FnOnce(*mut treefold_error) -> treefold_code) -> (treefold_code, String) {
    let mut error = MaybeUninit::uninit();
    let code = call(error.as_mut_ptr());
    // SAFETY: every call fills the error.
    let error: treefold_error = unsafe { error.assume_init() };
    assert_eq!(error.code, code);
    // SAFETY: a message ends with a zero and lives as long as the error.
    let message = unsafe { CStr::from_ptr(treefold_error_message(&raw const error)) };
    (code, message.to_str().unwrap().to_owned())
}

#[track_caller]
fn assert_invalid(call: impl FnOnce(*mut treefold_error) -> treefold_code, message: &str) {
    assert_eq!(said(call), (TREEFOLD_INVALID, message.to_owned()));
}

fn attachment() -> treefold_attachment {
    // SAFETY: zero is valid for each of its fields.
    let zero = unsafe { std::mem::zeroed() };
    treefold_attachment { size: size_of::<treefold_attachment>(), ..zero }
}

fn attach(attachment: *const treefold_attachment) -> (*mut treefold_attached, treefold_code, String) {
    let mut handle = null_mut();
    let (code, message) = said(|error| {
        // SAFETY: both live through the call; the attachment is as large as it says.
        handle = unsafe { treefold_attach(attachment, error) };
        // SAFETY: the call has filled it.
        unsafe { (*error).code }
    });
    (handle, code, message)
}

/// A network of one node, and one attached program.
struct Scene {
    runtime: tokio::runtime::Runtime,
    front: Node,
    attached: *mut treefold_attached,
}

impl Scene {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let front = runtime.block_on(Node::builder().start()).unwrap();
        let addr = format!("{}\0", front.addr());
        let at = [addr.as_ptr().cast()];
        let given = treefold_attachment {
            at: at.as_ptr(),
            at_count: 1,
            service: c"tool".as_ptr(),
            endpoints: &0,
            endpoint_count: 1,
            ..attachment()
        };
        let (attached, code, message) = attach(&given);
        assert_eq!((code, message.as_str()), (TREEFOLD_OK, ""));
        Self { runtime, front, attached }
    }

    fn stream(&self) -> (Stream, *mut treefold_stream) {
        let met = self.runtime.block_on(self.front.members_at_least(2, Duration::from_secs(30)));
        assert!(met);
        let client = self.front.client();
        let stream =
            self.runtime.block_on(client.stream("tool").params(&"for you".to_owned()).open()).unwrap();
        let mut theirs = null_mut();
        // SAFETY: the handle lives, and the place does.
        let code = unsafe { treefold_accept(self.attached, LONG_MS, &raw mut theirs, null_mut()) };
        assert_eq!(code, TREEFOLD_OK);
        (stream, theirs)
    }

    fn end(self, stream: *mut treefold_stream) {
        // SAFETY: nothing uses either handle any more.
        unsafe {
            treefold_stream_close(stream);
            assert_eq!(treefold_detach(self.attached, LONG_MS, null_mut()), TREEFOLD_OK);
        }
    }
}

#[test]
fn an_attachment_s_fields_are_named() {
    let missing = |given: &treefold_attachment| {
        let (handle, code, message) = attach(given);
        assert!(handle.is_null() && code == TREEFOLD_INVALID, "{message}");
        message
    };
    let size = size_of::<treefold_attachment>();
    for no_size in [0, 4, 8, 1 << 20] {
        let problem =
            format!("attachment.size: is {no_size}; allowed: {size}, the size of a treefold_attachment");
        assert_eq!(missing(&treefold_attachment { size: no_size, ..attachment() }), problem);
    }
    assert_eq!(missing(&attachment()), "attachment.service: is null");
    let named = || treefold_attachment { service: c"tool".as_ptr(), ..attachment() };
    assert_eq!(missing(&named()), "attachment.at: give the address of at least one node");
    assert_eq!(missing(&treefold_attachment { at_count: 1, ..named() }), "attachment.at: is null");
    let holds_null = treefold_attachment { at: [null()].as_ptr(), at_count: 1, ..named() };
    assert_eq!(missing(&holds_null), "attachment.at: holds a null");
    let at = [c"127.0.0.1:1".as_ptr()];
    let placed = || treefold_attachment { at: at.as_ptr(), at_count: 1, ..named() };
    assert_eq!(missing(&placed()), "attachment.endpoints: give at least one endpoint");
    let cluster = treefold_attachment { cluster: c"\xff".as_ptr(), ..placed() };
    assert!(missing(&cluster).starts_with("attachment.cluster: is not UTF-8"));
    let token = treefold_attachment { token: c"two\nlines".as_ptr(), ..placed() };
    assert_eq!(missing(&token), "attachment.token: is not a token; allowed: 1 to 1024 bytes, on one line");
    let time = treefold_attachment { timeout_ms: -2, ..placed() };
    assert_eq!(missing(&time), "attachment.timeout_ms: is -2; allowed: -1 and above");
    // SAFETY: null is allowed.
    assert!(unsafe { treefold_attach(null(), null_mut()) }.is_null());
    let nobody = treefold_attachment { endpoints: &0, endpoint_count: 1, timeout_ms: 1, ..placed() };
    assert_eq!(attach(&nobody).1, TREEFOLD_UNREACHABLE);
}

#[test]
fn attachments_of_other_sizes_are_accepted() {
    /// A possible later version of the structure.
    #[repr(C)]
    struct Later {
        known: treefold_attachment,
        other: u64,
    }
    let attach = |given: &Later| attach(&raw const given.known);
    let (known, later) = (size_of::<treefold_attachment>(), size_of::<Later>());
    // `token` is the first field that was added later. An old program's memory behind `size` must not be
    // read.
    let earlier = offset_of!(treefold_attachment, token);
    let no_text = null::<std::ffi::c_char>().wrapping_add(1);
    let given =
        |size, token, other| Later { known: treefold_attachment { size, token, ..attachment() }, other };
    let understood = (null_mut(), TREEFOLD_INVALID, "attachment.service: is null".to_owned());
    assert_eq!(attach(&given(earlier, no_text, 0)), understood);
    assert_eq!(attach(&given(later, null(), 0)), understood);
    let problem = format!("attachment.size: byte {known} is set, and this library knows {known} of them");
    assert_eq!(attach(&given(later, null(), 1)), (null_mut(), TREEFOLD_INVALID, problem));
}

#[test]
fn handle_is_freed_even_if_the_grace_is_invalid() {
    let scene = Scene::new();
    let met = scene.runtime.block_on(scene.front.members_at_least(2, Duration::from_secs(30)));
    assert!(met);
    assert_invalid(
        // SAFETY: nothing uses the handle any more.
        |error| unsafe { treefold_detach(scene.attached, -2, error) },
        "grace_ms: is -2; allowed: -1 and above",
    );
    let alone = async {
        while scene.front.members().len() > 1 {
            tokio::task::yield_now().await;
        }
    };
    scene.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), alone).await }).unwrap();
}

#[test]
fn nulls_are_named_and_harmless() {
    // SAFETY: null is allowed everywhere.
    unsafe {
        let mut stream = null_mut();
        assert_invalid(|error| treefold_accept(null(), 0, &raw mut stream, error), "attached: is null");
        assert_invalid(|error| treefold_event_clear(null(), error), "attached: is null");
        assert_eq!(treefold_event_fd(null()), -1);
        assert_eq!(treefold_detach(null_mut(), 0, null_mut()), TREEFOLD_OK);
        assert_invalid(|error| treefold_recv(null(), 0, null_mut(), error), "stream: is null");
        assert_invalid(|error| treefold_send(null(), null(), 0, 0, error), "stream: is null");
        assert_invalid(|error| treefold_row_i64(null_mut(), 0, error), "row: is null");
        assert_invalid(|error| treefold_packet_i64(null(), 0, null_mut(), error), "packet: is null");
        treefold_stream_close(null_mut());
        treefold_packet_free(null_mut());
        treefold_row_free(null_mut());
        treefold_row_clear(null_mut());
        assert_eq!(CStr::from_ptr(treefold_error_message(null())), c"");
        assert_eq!(CStr::from_ptr(treefold_version()).to_str().unwrap(), env!("CARGO_PKG_VERSION"));
    }
}

#[test]
fn stream_arguments_are_checked_and_its_end_is_reported() {
    let scene = Scene::new();
    let (stream, theirs) = scene.stream();
    // SAFETY: the handles live until the end of the scene.
    unsafe {
        assert_invalid(|error| treefold_accept(scene.attached, 0, null_mut(), error), "stream: is null");
        let (mut data, mut len, mut endpoint, mut packet) = (null(), 0, 9, null_mut());
        assert_eq!(treefold_stream_params(theirs, &raw mut data, &raw mut len, null_mut()), TREEFOLD_OK);
        let params = std::slice::from_raw_parts(data, len);
        assert!(params.ends_with(b"for you"), "{params:?}");
        assert_eq!(treefold_stream_endpoint(theirs, &raw mut endpoint, null_mut()), TREEFOLD_OK);
        assert_eq!(endpoint, 0);
        assert_invalid(|error| treefold_recv(theirs, 0, null_mut(), error), "packet: is null");
        let time = "timeout_ms: is -9; allowed: -1 and above";
        assert_invalid(|error| treefold_recv(theirs, -9, &raw mut packet, error), time);
        assert_invalid(|error| treefold_send(theirs, null(), 1, 0, error), "data: is null");
        let (code, message) = said(|error| treefold_recv(theirs, 0, &raw mut packet, error));
        assert_eq!((code, message.as_str()), (TREEFOLD_AGAIN, "no packet came in that time"));
        stream.close();
        let (code, message) = said(|error| treefold_recv(theirs, LONG_MS, &raw mut packet, error));
        assert_eq!(code, TREEFOLD_OVER);
        assert_eq!(message, "the stream is over: the front-end closed the stream");
        assert_eq!(treefold_send(theirs, null(), 0, LONG_MS, null_mut()), TREEFOLD_OVER);
    }
    scene.end(theirs);
}

#[test]
fn one_thread_receives_at_a_time() {
    struct Shared(*const treefold_stream);
    // SAFETY: a stream may be used from any thread.
    unsafe impl Sync for Shared {}
    let scene = Scene::new();
    let (stream, theirs) = scene.stream();
    let shared = Shared(theirs);
    let shared = &shared;
    std::thread::scope(|scope| {
        let receive = move || {
            let mut packet = null_mut();
            // SAFETY: the handle lives through the scope.
            unsafe { treefold_recv(shared.0, 1, &raw mut packet, null_mut()) }
        };
        // Two threads that keep receiving collide sooner or later.
        let find_busy = move || while receive() != TREEFOLD_BUSY {};
        let other = scope.spawn(find_busy);
        while !other.is_finished() {
            receive();
        }
    });
    drop(stream);
    scene.end(theirs);
}

#[test]
fn typed_packets_are_read_field_by_field() {
    let scene = Scene::new();
    let (stream, theirs) = scene.stream();
    let row = Row::new().i64(-3).f64(0.5).i64s(&[1, 2, 3]).f64s(&[0.25]).str("näh").blob(&[0, 1]).u64(7);
    scene.runtime.block_on(stream.send(row.packet().into_bytes())).unwrap();
    let mut packet = null_mut();
    // SAFETY: the handles live until they are given back, the places through the calls.
    unsafe {
        assert_eq!(treefold_recv(theirs, LONG_MS, &raw mut packet, null_mut()), TREEFOLD_OK);
        assert_eq!((*packet).tag, 1);
        let (mut fields, mut whole, mut natural, mut real) = (0, 0, 0, 0.0);
        assert_eq!(treefold_packet_fields(packet, &raw mut fields, null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_packet_i64(packet, 0, &raw mut whole, null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_packet_f64(packet, 1, &raw mut real, null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_packet_u64(packet, 6, &raw mut natural, null_mut()), TREEFOLD_OK);
        assert_eq!((fields, whole, real, natural), (7, -3, 0.5, 7));
        let (mut count, mut values) = (0, [0; 4]);
        let short = said(|error| treefold_packet_i64s(packet, 2, null_mut(), 0, &raw mut count, error));
        assert_eq!(short, (TREEFOLD_NO_ROOM, "the array has 3 elements, and there is room for 0".to_owned()));
        let place = values.as_mut_ptr();
        assert_eq!(treefold_packet_i64s(packet, 2, place, 4, &raw mut count, null_mut()), TREEFOLD_OK);
        assert_eq!((count, values), (3, [1, 2, 3, 0]));
        let mut reals = [0.0];
        let place = reals.as_mut_ptr();
        assert_eq!(treefold_packet_f64s(packet, 3, place, 1, &raw mut count, null_mut()), TREEFOLD_OK);
        assert_eq!((count, reals), (1, [0.25]));
        let (mut text, mut data, mut len) = (null(), null(), 0);
        assert_eq!(treefold_packet_str(packet, 4, &raw mut text, &raw mut len, null_mut()), TREEFOLD_OK);
        assert_eq!(std::slice::from_raw_parts(text.cast::<u8>(), len), "näh".as_bytes());
        assert_eq!(treefold_packet_blob(packet, 5, &raw mut data, &raw mut len, null_mut()), TREEFOLD_OK);
        assert_eq!(std::slice::from_raw_parts(data, len), [0, 1]);
        let (code, message) = said(|error| treefold_packet_i64(packet, 1, &raw mut whole, error));
        let format = "i64 f64 i64s f64s str blob u64";
        assert_eq!(
            (code, message),
            (TREEFOLD_TYPE, format!("field 1 of a packet `{format}` is not of type i64"))
        );
        treefold_packet_free(packet);
    }
    scene.runtime.block_on(stream.send(bytes::Bytes::from_static(b"\xff"))).unwrap();
    // SAFETY: as above.
    unsafe {
        assert_eq!(treefold_recv(theirs, LONG_MS, &raw mut packet, null_mut()), TREEFOLD_OK);
        let mut whole = 5;
        let (code, message) = said(|error| treefold_packet_i64(packet, 0, &raw mut whole, error));
        assert_eq!((code, whole), (TREEFOLD_TYPE, 5), "{message}");
        treefold_packet_free(packet);
    }
    scene.end(theirs);
}

#[test]
fn a_row_is_empty_once_it_is_sent_and_has_255_values_at_most() {
    let scene = Scene::new();
    let (mut stream, theirs) = scene.stream();
    // SAFETY: the handles live until they are given back, and the lent values through the calls.
    unsafe {
        let row = treefold_row_new();
        for _ in 0..255 {
            assert_eq!(treefold_row_i64(row, 1, null_mut()), TREEFOLD_OK);
        }
        assert_invalid(|error| treefold_row_u64(row, 1, error), "row: has 255 values, the maximum");
        treefold_row_clear(row);
        assert_invalid(|error| treefold_row_str(row, null(), error), "text: is null");
        assert_eq!(treefold_row_str(row, c"a".as_ptr(), null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_row_i64s(row, [4, 5].as_ptr(), 2, null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_row_f64s(row, null(), 0, null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_row_f64(row, 0.5, null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_row_blob(row, [9u8].as_ptr(), 1, null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_send_row_tagged(theirs, 7, row, LONG_MS, null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_row_u64(row, 1, null_mut()), TREEFOLD_OK);
        assert_eq!(treefold_send_row(theirs, row, LONG_MS, null_mut()), TREEFOLD_OK);
        treefold_row_free(row);
    }
    let rows = [Row::new().str("a").i64s(&[4, 5]).f64s(&[]).f64(0.5).blob(&[9]), Row::new().u64(1)];
    for (tag, row) in [7, 8].into_iter().zip(rows) {
        let wave = scene.runtime.block_on(stream.wave()).unwrap();
        assert_eq!((wave.tag, wave.packets), (tag, vec![row.packet().into_bytes()]));
    }
    scene.end(theirs);
}
