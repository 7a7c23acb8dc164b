//! The line between C and Rust: what may cross it, and how it is looked at on the way.
//!
//! Each function here turns one kind of raw pointer into something that Rust can hold, and refuses what shows that it
//! can't be: null, misaligned, longer than memory. What doesn't show is the caller's promise, named at each.

use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use std::any::Any;
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// C's pointers cross threads unasked. What the header promises of a handle is asked for beside it, by this.
pub(crate) const fn used_from_any_thread<T: Send + Sync>() {}

/// The same for a handle that one thread uses at a time.
pub(crate) const fn used_by_one_thread_at_a_time<T: Send>() {}

/// Runs a function's body: no panic leaves it, and its outcome goes to `error`.
///
/// # Safety
/// `error` is null, or points to a place for an error that nobody else uses during the call.
pub(crate) unsafe fn guard(error: *mut treefold_error, body: impl FnOnce() -> Outcome) -> treefold_code {
    // What a body shares with later calls is behind locks that live with being poisoned, or is only read.
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(broken(panic)));
    // SAFETY: as the caller promises.
    if let Ok(place) = unsafe { place("error", error) } {
        place.write(treefold_error::of(&outcome));
    }
    outcome.map_or_else(|failure| failure.code, |()| treefold_code::TREEFOLD_OK)
}

/// As [`guard`], for functions that say nothing.
pub(crate) fn guard_silently(body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        drop(broken(panic));
    }
}

fn broken(panic: Box<dyn Any + Send>) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let failure = Failure::new(
        treefold_code::TREEFOLD_BROKEN,
        format!("a defect in Treefold: {}", text.unwrap_or("it has panicked")),
    );
    // Its destructor is a stranger's, and may panic again.
    std::mem::forget(panic);
    failure
}

/// Something that is lent for the call.
///
/// # Safety
/// `pointer` is null, or points to a `T` that lives through `'a` and is not changed meanwhile but by its own locks.
pub(crate) unsafe fn lent<'a, T>(name: &str, pointer: *const T) -> Outcome<&'a T> {
    check(name, pointer)?;
    // SAFETY: not null and aligned; the rest is the caller's promise.
    Ok(unsafe { &*pointer })
}

/// Something that is lent for the call, for it alone.
///
/// # Safety
/// As [`lent`], and nobody else uses it during `'a`.
pub(crate) unsafe fn lent_alone<'a, T>(name: &str, pointer: *mut T) -> Outcome<&'a mut T> {
    check(name, pointer)?;
    // SAFETY: not null and aligned; the rest is the caller's promise.
    Ok(unsafe { &mut *pointer })
}

/// A place for a result, whatever is in it.
///
/// # Safety
/// `pointer` is null, or points to memory for a `T` that may be written and that nobody else uses during `'a`.
pub(crate) unsafe fn place<'a, T>(name: &str, pointer: *mut T) -> Outcome<&'a mut MaybeUninit<T>> {
    check(name, pointer)?;
    // SAFETY: not null and aligned; the rest is the caller's promise. Nothing is said of what it holds.
    Ok(unsafe { &mut *pointer.cast() })
}

/// `count` elements that are lent for the call; none when `count` is 0, whatever the pointer.
///
/// # Safety
/// As [`lent`], for `count` elements side by side.
pub(crate) unsafe fn lent_slice<'a, T>(name: &str, pointer: *const T, count: usize) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check_all(name, pointer, count)?;
    // SAFETY: not null, aligned, no longer than memory can be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Places for `count` results; none when `count` is 0, whatever the pointer.
///
/// # Safety
/// As [`place`], for `count` of them side by side.
pub(crate) unsafe fn places<'a, T>(
    name: &str,
    pointer: *mut T,
    count: usize,
) -> Outcome<&'a mut [MaybeUninit<T>]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_all(name, pointer, count)?;
    // SAFETY: not null, aligned, no longer than memory can be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), count) })
}

/// A text that is lent for the call; `None` for null.
///
/// # Safety
/// `pointer` is null, or points to bytes that end with a zero, live through `'a` and are not changed meanwhile.
pub(crate) unsafe fn lent_text<'a>(name: &str, pointer: *const c_char) -> Outcome<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|error| Failure::argument(name, format_args!("is no UTF-8: {error}")))
}

/// Makes a handle of a value: it is the caller's from now on.
pub(crate) fn given<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes a handle back for good; `None` for null.
///
/// # Safety
/// `handle` is null, or came from [`given`] and is used by nobody, now or later.
pub(crate) unsafe fn taken_back<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: as the caller promises.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// A time in milliseconds as C has it; -1 is for ever.
pub(crate) fn duration(name: &str, milliseconds: i64) -> Outcome<Duration> {
    match u64::try_from(milliseconds) {
        Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        Err(_) if milliseconds == -1 => Ok(Duration::MAX),
        Err(_) => Err(Failure::argument(name, format_args!("is {milliseconds}; allowed: -1 and above"))),
    }
}

fn check<T>(name: &str, pointer: *const T) -> Outcome {
    if pointer.is_null() {
        return Err(Failure::argument(name, "is null"));
    }
    if !pointer.is_aligned() {
        return Err(Failure::argument(name, "is not aligned"));
    }
    Ok(())
}

fn check_all<T>(name: &str, pointer: *const T, count: usize) -> Outcome {
    check(name, pointer)?;
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Failure::argument(name, format_args!("has {count} elements, more than memory holds"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code_and_a_message() {
        let mut error = treefold_error::of(&Ok(()));
        // SAFETY: the error lives through the call.
        let code = unsafe { guard(&raw mut error, || panic!("on {}", "purpose")) };
        assert_eq!(code, treefold_code::TREEFOLD_BROKEN);
        // SAFETY: a message ends with a zero.
        let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
        assert_eq!(message, c"a defect in Treefold: on purpose");
        guard_silently(|| panic!("nor does this one leave"));
    }

    #[test]
    fn what_shows_that_it_cannot_be_is_refused_by_name() {
        let numbers = [1u64, 2];
        let first = numbers.as_ptr();
        let said = |outcome: Outcome<&[u64]>| outcome.err().map(|failure| failure.message);
        // SAFETY: what is wrong with these shows before they are followed.
        unsafe {
            assert_eq!(said(lent_slice("values", std::ptr::null(), 1)).as_deref(), Some("values: is null"));
            let astray = first.byte_add(1);
            assert_eq!(said(lent_slice("values", astray, 1)).as_deref(), Some("values: is not aligned"));
            assert!(
                said(lent_slice("values", first, usize::MAX)).is_some_and(|text| text.contains("memory"))
            );
            assert_eq!(lent_slice("values", std::ptr::null::<u64>(), 0).ok(), Some(&[][..]));
            assert_eq!(lent_slice("values", first, 2).ok(), Some(&numbers[..]));
        }
        assert!(duration("timeout_ms", -2).is_err());
        assert_eq!(duration("timeout_ms", -1).ok(), Some(Duration::MAX));
    }
}
