//! Errors of guests.
//!
//! There are three groups. A module is refused, and none of its code has run. An invocation failed, and its
//! wave with it. The host itself failed. No error here stops the node, and each gives the value found and the
//! value allowed.

use crate::abi::Kind;
use crate::id::ModuleId;

/// The reason why a module is refused, or why an invocation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    // --- a module is refused ---
    /// The module is longer than allowed.
    #[error("the module has {bytes} bytes; allowed: {bytes_max} (module_bytes_max)")]
    ModuleTooLarge {
        /// Bytes of the module.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The module would take too long to compile, or too much memory.
    #[error("the module has too much for the compiler: {what} is {found}; allowed: {allowed}")]
    TooComplex {
        /// The limit or the figure.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The largest allowed value.
        allowed: u64,
    },
    /// The bytes are not WebAssembly, are invalid, or use a proposal that is not allowed here.
    #[error("not a valid WebAssembly module: {reason}")]
    Invalid {
        /// The validator's message.
        reason: String,
    },
    /// The module imports something from the host.
    #[error("the module imports {module}.{name}; a guest may import nothing")]
    Import {
        /// The module it imports from.
        module: String,
        /// The imported name.
        name: String,
    },
    /// The module declares no version of the ABI.
    #[error("the module exports no function treefold_abi_v1, so it is not a guest")]
    NoAbi,
    /// The module uses another version of the ABI.
    #[error("the module uses version {found} of the ABI; this node uses {}", crate::ABI_VERSION)]
    AbiVersion {
        /// The version that the module uses.
        found: u32,
    },
    /// An export that is required for this kind of guest is missing.
    #[error("the module does not export {name}: {expected}")]
    MissingExport {
        /// Name of the missing export.
        name: &'static str,
        /// Type of the missing export.
        expected: String,
    },
    /// An export has another type than the ABI requires.
    #[error("the export {name} is {found}; expected: {expected}")]
    Signature {
        /// Name of the export.
        name: String,
        /// Its type.
        found: String,
        /// The type required by the ABI.
        expected: String,
    },
    /// An export has the prefix of the ABI's names but is not one of them.
    #[error("the export {name} is unknown; names that begin with treefold_ are reserved for the ABI")]
    UnknownExport {
        /// Name of the export.
        name: String,
    },
    /// The module is neither a reduce nor a filter, or it is both.
    #[error(
        "the module exports {found} of treefold_reduce and treefold_filter_up; a guest exports exactly one of them"
    )]
    KindUnclear {
        /// How many of the two it exports.
        found: u8,
    },
    /// The module's initial memory is larger than a guest's memory may be.
    #[error("the module begins with {bytes} bytes of memory; allowed: {bytes_max} (memory_bytes_max)")]
    MemoryTooLarge {
        /// Bytes of the initial memory.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// The module is valid but can't run here.
    ///
    /// It has more than one table, a table larger than `table_elements_max`, or a function that is too large
    /// to compile.
    #[error("the module is valid but can't run here: {reason}")]
    Unrunnable {
        /// The limit that is exceeded.
        reason: String,
    },
    /// The compiled module does not fit into the cache, even if everything else is evicted.
    #[error(
        "the module takes {bytes} bytes when compiled; allowed for all modules: {bytes_max} (modules_bytes_max)"
    )]
    CacheTooSmall {
        /// Bytes of the module as sent and as compiled.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The module is a filter where a reduce is expected, or the other way round.
    #[error("module {id:?} is a {found}; expected: a {wanted}")]
    WrongKind {
        /// The module.
        id: ModuleId,
        /// The kind that it is.
        found: Kind,
        /// The kind that is expected.
        wanted: Kind,
    },

    // --- an invocation failed ---
    /// The guest returned an error.
    #[error("{text}")]
    Refused {
        /// The text of the guest's error.
        text: String,
    },
    /// The guest ran for too long.
    #[error("{function} ran out of fuel; allowed: {fuel_max} (fuel_max)")]
    OutOfFuel {
        /// The exported function that was called.
        function: &'static str,
        /// The limit.
        fuel_max: u64,
    },
    /// The guest requested more memory than allowed.
    #[error("{function} asked for a memory of {bytes} bytes; allowed: {bytes_max} (memory_bytes_max)")]
    OutOfMemory {
        /// The exported function that was called.
        function: &'static str,
        /// Bytes that the memory would have had.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The guest trapped: a panic, an access outside of its memory, a division by zero, too deep a recursion.
    #[error("{function} trapped: {reason}")]
    Trap {
        /// The exported function that was called.
        function: &'static str,
        /// The text that the guest left, if any; otherwise the runtime's description of the trap.
        reason: String,
    },
    /// The guest returned no buffer for the input, or a buffer outside of its memory.
    #[error(
        "treefold_alloc returned {address} for {bytes} bytes; expected: a multiple of 8 within its memory of {memory_bytes} bytes"
    )]
    NoRoom {
        /// The address returned; 0 means that the guest has no room.
        address: u32,
        /// The bytes requested.
        bytes: usize,
        /// Bytes of the guest's memory.
        memory_bytes: usize,
    },
    /// The guest returned an address outside of its memory.
    #[error("{function} returned {bytes} bytes at {address}, beyond its memory of {memory_bytes} bytes")]
    BadResult {
        /// The function that returned it.
        function: &'static str,
        /// Address of the bytes.
        address: u32,
        /// Number of bytes.
        bytes: u64,
        /// Bytes of the guest's memory.
        memory_bytes: usize,
    },
    /// The input doesn't fit into the guest's memory.
    #[error("the input has {bytes} bytes; allowed: {bytes_max} (memory_bytes_max)")]
    InputTooLarge {
        /// Bytes of the input.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// The guest returned more bytes than allowed.
    #[error("{function} returned {bytes} bytes; allowed: {bytes_max} (output_bytes_max)")]
    OutputTooLarge {
        /// The function that returned them.
        function: &'static str,
        /// Number of bytes.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// The guest returned more packets than allowed.
    #[error("{function} returned {packets} packets; allowed: {packets_max} (packets_max)")]
    TooManyPackets {
        /// The function that returned them.
        function: &'static str,
        /// Number of packets.
        packets: usize,
        /// The limit.
        packets_max: usize,
    },

    // --- the host failed ---
    /// All guests together have reached the limit of their memory.
    #[error(
        "{function} requested {bytes} bytes more; allowed for all guests together: {bytes_max} (guests_memory_bytes_max)"
    )]
    GuestsOutOfMemory {
        /// The function that requested them.
        function: &'static str,
        /// Number of bytes.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The greatest number of guests exists already.
    #[error("{instances_max} guests exist already (instances_max)")]
    TooManyInstances {
        /// The limit.
        instances_max: u32,
    },
    /// A limit has an invalid value.
    #[error("{limit} is {given}; allowed: {allowed}")]
    BadLimit {
        /// The limit.
        limit: &'static str,
        /// The value given.
        given: u64,
        /// The values allowed.
        allowed: &'static str,
    },
    /// The runtime failed: no address space or no memory.
    #[error("the WebAssembly runtime failed: {reason}")]
    Host {
        /// The runtime's message.
        reason: String,
    },
}

impl WasmError {
    /// Returns true if the guest returned normally, so that its state is consistent.
    pub(crate) fn leaves_state_sound(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. }
                | Self::InputTooLarge { .. }
                | Self::OutputTooLarge { .. }
                | Self::TooManyPackets { .. }
        )
    }

    #[cold]
    pub(crate) fn host(error: &wasmtime::Error) -> Self {
        Self::Host { reason: format!("{error:#}") }
    }
}

/// Cuts a name or reason from a module to a length that suits an error message.
pub(crate) fn clipped(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Most characters of a name in an error message.
pub(crate) const NAME_CHARS_MAX: usize = 80;
/// Most characters of the validator's message.
pub(crate) const REASON_CHARS_MAX: usize = 400;
