//! What can be wrong with a guest.
//!
//! Three groups: a module is refused, and nothing of it has run; an invocation failed, and its wave with it; the host
//! itself could not. No error here is ever the node's end, and each says what was found and what is allowed.

use crate::abi::Kind;
use crate::id::ModuleId;

/// Why a module is refused, or why an invocation gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    // --- a module is refused ---
    /// Longer than a module may be.
    #[error("the module has {bytes} bytes; allowed: {bytes_max} (module_bytes_max)")]
    ModuleTooLarge {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Not WebAssembly, or invalid, or of a proposal that is not allowed here.
    #[error("not a valid WebAssembly module: {reason}")]
    Invalid {
        /// What the validator says.
        reason: String,
    },
    /// It wants something of the host.
    #[error("the module imports {module}.{name}; a guest may import nothing")]
    Import {
        /// The module it imports from.
        module: String,
        /// What it imports.
        name: String,
    },
    /// It does not say which version of the ABI it speaks.
    #[error("the module exports no function treefold_abi_v1, so it is no guest")]
    NoAbi,
    /// It speaks another version.
    #[error("the module speaks version {found} of the ABI; this node speaks {}", crate::ABI_VERSION)]
    AbiVersion {
        /// The version it speaks.
        found: u32,
    },
    /// Something that every guest of its kind exports is not there.
    #[error("the module does not export {name}: {expected}")]
    MissingExport {
        /// What is missing.
        name: &'static str,
        /// Its type.
        expected: String,
    },
    /// An export is of another type than the ABI says.
    #[error("the export {name} is {found}; expected: {expected}")]
    Signature {
        /// Which export.
        name: String,
        /// Its type.
        found: String,
        /// The type it should have.
        expected: String,
    },
    /// An export is called like one of the ABI's, and is none.
    #[error("the export {name} is unknown; names that begin with treefold_ are the ABI's")]
    UnknownExport {
        /// Which export.
        name: String,
    },
    /// It is neither a reduce nor a filter, or it is both.
    #[error("the module exports {found} of treefold_reduce and treefold_filter_up; a guest is one of both")]
    KindUnclear {
        /// How many of the two.
        found: u8,
    },
    /// It begins with more memory than it may ever have.
    #[error("the module begins with {bytes} bytes of memory; allowed: {bytes_max} (memory_bytes_max)")]
    MemoryTooLarge {
        /// The memory's minimum.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// It is valid, and yet can't be run here: it has more than one table, or a larger one than `table_elements_max`,
    /// or a function that is too large to compile.
    #[error("a valid module that can't be run here: {reason}")]
    Unrunnable {
        /// What there is too much of.
        reason: String,
    },
    /// Compiled, it does not fit beside what a node holds, however much goes.
    #[error(
        "the module takes {bytes} bytes, compiled; allowed for all modules: {bytes_max} (modules_bytes_max)"
    )]
    CacheTooSmall {
        /// Bytes as sent and as compiled.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A reduce is wanted and it is a filter, or the other way round.
    #[error("module {id:?} is a {found}; wanted: a {wanted}")]
    WrongKind {
        /// Which module.
        id: ModuleId,
        /// What it is.
        found: Kind,
        /// What was wanted.
        wanted: Kind,
    },

    // --- an invocation failed ---
    /// The guest says so itself.
    #[error("{text}")]
    Refused {
        /// Its own words.
        text: String,
    },
    /// It ran for too long.
    #[error("{function} ran out of fuel; allowed: {fuel_max} (fuel_max)")]
    OutOfFuel {
        /// The function it was called by.
        function: &'static str,
        /// The limit.
        fuel_max: u64,
    },
    /// It wanted more memory than it may have.
    #[error("{function} asked for a memory of {bytes} bytes; allowed: {bytes_max} (memory_bytes_max)")]
    OutOfMemory {
        /// The function it was called by.
        function: &'static str,
        /// What it would have had.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// It trapped: a panic, an access outside of its memory, a division by zero, too deep a recursion.
    #[error("{function} trapped: {reason}")]
    Trap {
        /// The function it was called by.
        function: &'static str,
        /// The guest's last words if it left any, else what the processor says.
        reason: String,
    },
    /// It gave no room for what it was to work on, or room outside of its memory.
    #[error(
        "treefold_alloc gave {address} for {bytes} bytes; expected: a multiple of 8 within its memory of {memory_bytes} bytes"
    )]
    NoRoom {
        /// What it gave; 0 says that it has no room.
        address: u32,
        /// What it was asked for.
        bytes: usize,
        /// The memory it has.
        memory_bytes: usize,
    },
    /// It returned an address outside of its memory.
    #[error("{function} returned {bytes} bytes at {address}, beyond its memory of {memory_bytes} bytes")]
    BadResult {
        /// The function that returned it.
        function: &'static str,
        /// Where the bytes should be.
        address: u32,
        /// How many.
        bytes: u64,
        /// The memory it has.
        memory_bytes: usize,
    },
    /// What it is to work on doesn't fit into its memory.
    #[error("{bytes} bytes go in; allowed: {bytes_max} (memory_bytes_max)")]
    InputTooLarge {
        /// What was to go in.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// It gave more bytes than it may.
    #[error("{function} gave {bytes} bytes; allowed: {bytes_max} (output_bytes_max)")]
    OutputTooLarge {
        /// The function that gave them.
        function: &'static str,
        /// How many.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// It gave more packets than it may.
    #[error("{function} gave {packets} packets; allowed: {packets_max} (packets_max)")]
    TooManyPackets {
        /// The function that gave them.
        function: &'static str,
        /// How many.
        packets: usize,
        /// The limit.
        packets_max: usize,
    },

    // --- the host could not ---
    /// All guests together have as much memory as they may.
    #[error(
        "{function} wanted {bytes} bytes more; allowed to all guests together: {bytes_max} (guests_memory_bytes_max)"
    )]
    GuestsOutOfMemory {
        /// The function that wanted them.
        function: &'static str,
        /// How many.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// As many guests exist as may.
    #[error("{instances_max} guests exist already (instances_max)")]
    TooManyInstances {
        /// The limit.
        instances_max: u32,
    },
    /// A limit that can't be kept.
    #[error("{limit} is {given}; allowed: {allowed}")]
    BadLimit {
        /// Which one.
        limit: &'static str,
        /// What was given.
        given: u64,
        /// What can be.
        allowed: &'static str,
    },
    /// The runtime failed: no address space, no memory.
    #[error("the WebAssembly runtime failed: {reason}")]
    Host {
        /// What it says.
        reason: String,
    },
}

impl WasmError {
    /// True when the guest came to its end as it meant to, so that what it remembers is sound.
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

/// Names and reasons that a module brings along, cut to a length that suits an error.
pub(crate) fn clipped(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Characters of a name that an error repeats.
pub(crate) const NAME_CHARS_MAX: usize = 80;
/// Characters of the validator's reason.
pub(crate) const REASON_CHARS_MAX: usize = 400;
