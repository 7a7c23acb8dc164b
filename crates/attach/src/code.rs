//! What a function says of its outcome: a code for the program, a sentence for its log.
//!
//! The error lies in the caller's memory and has a fixed size, so there is nothing to free and an error about memory
//! needs none.

use crate::boundary::lent;
use std::ffi::c_char;

/// Bytes of an error's message, its closing zero included; longer ones are cut.
pub const TREEFOLD_MESSAGE_BYTES: usize = 256;

/// The outcome of a function.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum treefold_code {
    /// Done.
    TREEFOLD_OK = 0,
    /// Not within that time: nothing came, or there was no room. Another call may succeed.
    TREEFOLD_AGAIN = 1,
    /// The stream is over, or the node has ended; no other call on this handle will succeed.
    TREEFOLD_OVER = 2,
    /// An argument makes no sense; the message names it.
    TREEFOLD_INVALID = 3,
    /// Nobody answered at any address in time, or nobody took the node in.
    TREEFOLD_UNREACHABLE = 4,
    /// Who answered is of another cluster, or has another token, or speaks another version of the protocol, or is full.
    TREEFOLD_REFUSED = 5,
    /// The system refused what a node needs: a port, a thread, a file descriptor.
    TREEFOLD_START = 6,
    /// Another thread is receiving from this stream.
    TREEFOLD_BUSY = 7,
    /// The packet is no typed packet, or the field is not there or of another type.
    TREEFOLD_TYPE = 8,
    /// The array has more elements than there is room for; how many has been said.
    TREEFOLD_NO_ROOM = 9,
    /// A defect in Treefold: it has panicked. The handle may be closed and should not be used otherwise.
    TREEFOLD_BROKEN = 10,
}

/// Why a function failed. It is the caller's; every call that is given it overwrites it.
#[repr(C)]
pub struct treefold_error {
    /// The same code that was returned.
    pub code: treefold_code,
    /// What happened, as a sentence that ends with a zero byte; empty after success.
    pub message: [c_char; TREEFOLD_MESSAGE_BYTES],
}

/// A function's failure on its way to the caller.
pub(crate) struct Failure {
    pub(crate) code: treefold_code,
    pub(crate) message: String,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    #[allow(clippy::needless_pass_by_value, reason = "texts and errors are given alike")]
    pub(crate) fn new(code: treefold_code, message: impl ToString) -> Self {
        Self { code, message: message.to_string() }
    }

    /// An argument that makes no sense.
    pub(crate) fn argument(name: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(treefold_code::TREEFOLD_INVALID, format!("{name}: {problem}"))
    }
}

impl treefold_error {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let mut message = [0; TREEFOLD_MESSAGE_BYTES];
        let (code, text) = match outcome {
            Ok(()) => (treefold_code::TREEFOLD_OK, ""),
            Err(failure) => (failure.code, failure.message.as_str()),
        };
        // A zero within would end the text early, and half a letter would be no UTF-8.
        let fitting = text.floor_char_boundary(TREEFOLD_MESSAGE_BYTES - 1);
        let octets = text[..fitting].bytes().take_while(|&octet| octet != 0);
        message.iter_mut().zip(octets).for_each(|(place, octet)| *place = octet.cast_signed() as c_char);
        Self { code, message }
    }
}

/// What an error says; it lives as long as the error does and changes with it. An empty text for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_error_message(error: *const treefold_error) -> *const c_char {
    // SAFETY: the caller lends an error that some function has filled, or null.
    match unsafe { lent("error", error) } {
        Ok(error) => error.message.as_ptr(),
        Err(_) => c"".as_ptr(),
    }
}

/// The library's version, as "0.1.0". From any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn treefold_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn said(message: &str) -> String {
        let error = treefold_error::of(&Err(Failure::argument("at", message)));
        assert_eq!(error.code, treefold_code::TREEFOLD_INVALID);
        // SAFETY: the error lives, and its message ends with a zero.
        unsafe { CStr::from_ptr(treefold_error_message(&raw const error)) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_message_is_cut_between_letters_and_at_a_zero() {
        assert_eq!(said("nothing"), "at: nothing");
        assert_eq!(said("no\0thing"), "at: no");
        let long = said(&"ä".repeat(TREEFOLD_MESSAGE_BYTES));
        assert_eq!(long.len(), TREEFOLD_MESSAGE_BYTES - 2, "an odd byte is left over");
        assert!(long.ends_with('ä'));
    }
}
