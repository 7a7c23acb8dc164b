//! The outcome of a function: a code for the program, and a sentence for its log.
//!
//! The error is in the caller's memory and has a fixed size. There is nothing to free, and an error about
//! memory needs no memory.

use crate::boundary::lent;
use std::ffi::c_char;

/// Bytes of an error's message with its final zero byte. Longer messages are cut.
pub const TREEFOLD_MESSAGE_BYTES: usize = 256;

/// The outcome of a function.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum treefold_code {
    /// Success.
    TREEFOLD_OK = 0,
    /// Not within the given time: nothing arrived, or there was no room. Another call may succeed.
    TREEFOLD_AGAIN = 1,
    /// The stream is over, or the node has ended. No later call on this handle will succeed.
    TREEFOLD_OVER = 2,
    /// An argument is invalid. The message names it.
    TREEFOLD_INVALID = 3,
    /// No node answered at any address in time, or no node took the program in.
    TREEFOLD_UNREACHABLE = 4,
    /// The node that answered is of another cluster, has another token, speaks another protocol version, or
    /// is full.
    TREEFOLD_REFUSED = 5,
    /// The operating system refused a port, a thread or a file descriptor that the node needs.
    TREEFOLD_START = 6,
    /// Another thread is receiving from this stream.
    TREEFOLD_BUSY = 7,
    /// The packet is not a typed packet, or the field does not exist or has another type.
    TREEFOLD_TYPE = 8,
    /// The array has more elements than there is room for. The array's length has been stored.
    TREEFOLD_NO_ROOM = 9,
    /// Treefold has panicked because of a defect in it. The handle may be closed, and should not be used
    /// otherwise.
    TREEFOLD_BROKEN = 10,
}

/// Why a function failed. The caller owns it, and every call that gets it overwrites it.
#[repr(C)]
pub struct treefold_error {
    /// The code that the function returned.
    pub code: treefold_code,
    /// The reason, as a sentence that ends with a zero byte. Empty after success.
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

    /// The failure for an invalid argument.
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
        // A zero byte inside would end the text early, and half a character would not be UTF-8.
        let fitting = text.floor_char_boundary(TREEFOLD_MESSAGE_BYTES - 1);
        let octets = text[..fitting].bytes().take_while(|&octet| octet != 0);
        message.iter_mut().zip(octets).for_each(|(place, octet)| *place = octet.cast_signed() as c_char);
        Self { code, message }
    }
}

/// The message of an error. It lives as long as the error, and changes with it. For null, an empty text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_error_message(error: *const treefold_error) -> *const c_char {
    // SAFETY: the caller lends an error that a function has filled, or null.
    match unsafe { lent("error", error) } {
        Ok(error) => error.message.as_ptr(),
        Err(_) => c"".as_ptr(),
    }
}

/// The library's version, as in "0.1.0". May be called from any thread at any time.
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
    fn message_is_cut_between_characters_and_at_a_zero() {
        assert_eq!(said("nothing"), "at: nothing");
        assert_eq!(said("no\0thing"), "at: no");
        let long = said(&"ä".repeat(TREEFOLD_MESSAGE_BYTES));
        assert_eq!(long.len(), TREEFOLD_MESSAGE_BYTES - 2, "an odd byte is left over");
        assert!(long.ends_with('ä'));
    }
}
