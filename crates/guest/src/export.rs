//! The macros that export a type from the guest.
//!
//! On targets other than WebAssembly they expand to nothing, so a guest's logic can be built and tested like
//! any other crate.

/// Exports a [`Reduce`](crate::Reduce). Use it once per guest, and not beside
/// [`export_filter!`](crate::export_filter).
#[macro_export]
macro_rules! export_reduce {
    ($reduce:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            $crate::export_abi!();

            #[unsafe(no_mangle)]
            extern "C" fn treefold_reduce(
                a: u32,
                a_bytes: u32,
                b: u32,
                b_bytes: u32,
                params: u32,
                params_bytes: u32,
            ) -> u64 {
                // SAFETY: the host has filled the input buffer and passes the positions in it.
                unsafe { $crate::raw::reduce::<$reduce>([a, a_bytes], [b, b_bytes], [params, params_bytes]) }
            }
        };
        const _: fn() = || {
            fn is_reduce<R: $crate::Reduce>() {}
            is_reduce::<$reduce>();
        };
    };
}

/// Exports a [`Filter`](crate::Filter). Use it once per guest, and not beside
/// [`export_reduce!`](crate::export_reduce).
#[macro_export]
macro_rules! export_filter {
    ($filter:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            $crate::export_abi!();

            static FILTER: $crate::raw::Held<Option<$filter>> = $crate::raw::Held::new(None);

            #[unsafe(no_mangle)]
            extern "C" fn treefold_filter_open(params: u32, params_bytes: u32) -> u64 {
                // SAFETY: the host has filled the input buffer and passes the positions in it.
                unsafe { $crate::raw::open(&FILTER, [params, params_bytes]) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn treefold_filter_up(pieces: u32, count: u32, tag: u64, now_ns: u64) -> u64 {
                // SAFETY: as above.
                unsafe { $crate::raw::up(&FILTER, [pieces, count], tag, now_ns) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn treefold_filter_down(
                payload: u32,
                payload_bytes: u32,
                tag: u64,
                now_ns: u64,
            ) -> u64 {
                // SAFETY: as above.
                unsafe { $crate::raw::down(&FILTER, [payload, payload_bytes], tag, now_ns) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn treefold_filter_holds_from() -> u64 {
                // SAFETY: the host calls this between its other calls.
                unsafe { $crate::raw::holds_from(&FILTER) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn treefold_filter_joined(kind: u32, number: u32) {
                // SAFETY: as above.
                unsafe { $crate::raw::joined(&FILTER, [kind, number]) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn treefold_filter_replaced(kind: u32, number: u32, heirs: u32, count: u32) {
                // SAFETY: as above.
                unsafe { $crate::raw::replaced(&FILTER, [kind, number], [heirs, count]) }
            }
        };
        const _: fn() = || {
            fn is_filter<F: $crate::Filter>() {}
            is_filter::<$filter>();
        };
    };
}

/// The exports of every guest.
#[doc(hidden)]
#[macro_export]
macro_rules! export_abi {
    () => {
        #[unsafe(no_mangle)]
        extern "C" fn treefold_abi_v1() {}

        #[unsafe(no_mangle)]
        extern "C" fn treefold_alloc(bytes: u32) -> u32 {
            // SAFETY: the host calls this between its other calls.
            unsafe { $crate::raw::alloc(bytes) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn treefold_trap_text() -> u64 {
            // SAFETY: the host calls this between its other calls or after a call that trapped.
            unsafe { $crate::raw::trap_text() }
        }
    };
}
