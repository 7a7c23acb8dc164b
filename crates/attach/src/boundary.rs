//! The boundary between C and Rust: converts raw pointers, and checks them.
//!
//! Each function here turns one kind of raw pointer into a Rust value. It refuses a pointer that is
//! recognisably invalid: null, misaligned, or longer than memory. The rest is the caller's promise, stated
//! at each function.

use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use std::any::Any;
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// C moves pointers between threads without asking. This checks at compile time what the header promises of
/// a handle.
pub(crate) const fn used_from_any_thread<T: Send + Sync>() {}

/// The same check for a handle that only one thread uses at a time.
pub(crate) const fn used_by_one_thread_at_a_time<T: Send>() {}

/// Runs a function's body: no panic leaves it, and its outcome is written to `error`.
///
/// # Safety
/// `error` is null, or points to memory for an error that nothing else uses during the call.
pub(crate) unsafe fn guard(error: *mut treefold_error, body: impl FnOnce() -> Outcome) -> treefold_code {
    // State that a body shares with later calls is behind locks that tolerate poisoning, or is only read.
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(broken(panic)));
    // SAFETY: as the caller promises.
    if let Ok(place) = unsafe { place("error", error) } {
        place.write(treefold_error::of(&outcome));
    }
    outcome.map_or_else(|failure| failure.code, |()| treefold_code::TREEFOLD_OK)
}

/// Runs a body like [`guard`], for functions that report nothing.
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
    // The payload's destructor is foreign code, and may panic again.
    std::mem::forget(panic);
    failure
}

/// A reference to a value that the caller lends for the call.
///
/// # Safety
/// `pointer` is null, or points to a `T` that lives through `'a` and changes during it only under its own
/// locks.
pub(crate) unsafe fn lent<'a, T>(name: &str, pointer: *const T) -> Outcome<&'a T> {
    check(name, pointer)?;
    // SAFETY: not null and aligned; the rest is the caller's promise.
    Ok(unsafe { &*pointer })
}

/// A mutable reference to a value that the caller lends for the call.
///
/// # Safety
/// As [`lent`], and nothing else uses the value during `'a`.
pub(crate) unsafe fn lent_alone<'a, T>(name: &str, pointer: *mut T) -> Outcome<&'a mut T> {
    check(name, pointer)?;
    // SAFETY: not null and aligned; the rest is the caller's promise.
    Ok(unsafe { &mut *pointer })
}

/// A place for a result, with any content.
///
/// # Safety
/// `pointer` is null, or points to writable memory for a `T` that nothing else uses during `'a`.
pub(crate) unsafe fn place<'a, T>(name: &str, pointer: *mut T) -> Outcome<&'a mut MaybeUninit<T>> {
    check(name, pointer)?;
    // SAFETY: not null and aligned; the rest is the caller's promise. The content may be uninitialised.
    Ok(unsafe { &mut *pointer.cast() })
}

/// `count` elements that the caller lends for the call. If `count` is 0, none, and the pointer is ignored.
///
/// # Safety
/// As [`lent`], for `count` contiguous elements.
pub(crate) unsafe fn lent_slice<'a, T>(name: &str, pointer: *const T, count: usize) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check_all(name, pointer, count)?;
    // SAFETY: not null, aligned, no longer than memory can be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Places for `count` results. If `count` is 0, none, and the pointer is ignored.
///
/// # Safety
/// As [`place`], for `count` contiguous places.
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

/// A structure of options: every field may be zero, and its first field is its size, a `usize`.
///
/// # Safety
/// Both hold.
pub(crate) unsafe trait Zeroable {}

/// Declares a structure of options that consists of pointers and numbers.
macro_rules! zeroable {
    ($options:ty) => {
        // SAFETY: all fields are pointers and numbers, and the first is the size.
        unsafe impl crate::boundary::Zeroable for $options {}
    };
}
pub(crate) use zeroable;

/// A larger value cannot be a size: it comes from memory that was not initialised.
const SIZE_MAX: usize = 4 << 10;

/// The caller's options with all fields that this library knows. Fields that the program does not know have their
/// defaults. Fields that only the program knows must be zero, their default. Every version of the structure has at least
/// `least` bytes.
///
/// # Safety
/// `options` is null, or points to `size` bytes, where `size` is its first field.
pub(crate) unsafe fn whole<T: Zeroable>(name: &str, options: *const T, least: usize) -> Outcome<T> {
    let known = size_of::<T>();
    let kind = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
    // SAFETY: as the caller promises; `size` is the first field.
    let size = *unsafe { lent(name, options.cast::<usize>())? };
    let refuse = |problem: std::fmt::Arguments<'_>| Failure::argument(&format!("{name}.size"), problem);
    if !(least..=SIZE_MAX).contains(&size) {
        return Err(refuse(format_args!("is {size}; allowed: {known}, the size of a {kind}")));
    }
    // SAFETY: as the caller promises.
    let given = unsafe { lent_slice(name, options.cast::<u8>(), size)? };
    let (ours, theirs) = given.split_at(size.min(known));
    if let Some(at) = theirs.iter().position(|&byte| byte != 0) {
        return Err(refuse(format_args!(
            "byte {} is set, and this library knows {known} of them",
            known + at
        )));
    }
    let mut whole = MaybeUninit::<T>::zeroed();
    // SAFETY: both have this length and do not overlap. Zero is valid for every field, and the program set
    // the others.
    unsafe {
        std::ptr::copy_nonoverlapping(ours.as_ptr(), whole.as_mut_ptr().cast(), ours.len());
        Ok(whole.assume_init())
    }
}

/// Copies some numbers to the caller's places and sets `count` to how many there are. With too few places, none is copied.
///
/// # Safety
/// `count` and `values` are null or valid for writing, `values` for `capacity` elements.
pub(crate) unsafe fn copy_out<T>(
    (values, capacity): (*mut T, usize),
    count: *mut usize,
    numbers: impl ExactSizeIterator<Item = T>,
) -> Outcome {
    // SAFETY: as the caller promises.
    let (count, places) = unsafe { (place("count", count)?, places("values", values, capacity)?) };
    count.write(numbers.len());
    if numbers.len() > places.len() {
        let problem = format!("the array has {} elements, and there is room for {capacity}", numbers.len());
        return Err(Failure::new(treefold_code::TREEFOLD_NO_ROOM, problem));
    }
    places.iter_mut().zip(numbers).for_each(|(place, number)| {
        place.write(number);
    });
    Ok(())
}

/// A text that the caller lends for the call; `None` for null.
///
/// # Safety
/// `pointer` is null, or points to bytes that end with a zero, live through `'a` and do not change during
/// it.
pub(crate) unsafe fn lent_text<'a>(name: &str, pointer: *const c_char) -> Outcome<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|error| Failure::argument(name, format_args!("is not UTF-8: {error}")))
}

/// Makes a handle of a value and passes its ownership to the caller.
pub(crate) fn given<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes the ownership of a handle back; `None` for null.
///
/// # Safety
/// `handle` is null, or came from [`given`], and nothing uses it now or later.
pub(crate) unsafe fn taken_back<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: as the caller promises.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// Converts C's time in milliseconds; -1 is for ever.
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
        guard_silently(|| panic!("this must not leave, either"));
    }

    #[test]
    fn invalid_pointers_are_refused_by_name() {
        let numbers = [1u64, 2];
        let first = numbers.as_ptr();
        let said = |outcome: Outcome<&[u64]>| outcome.err().map(|failure| failure.message);
        // SAFETY: these pointers are refused before they are dereferenced.
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
