//! Checks that a module follows the ABI, once, before any of its code runs.
//!
//! After this check, the rest of the crate relies on names and types. The guest's behaviour stays untrusted.

use crate::abi::{self, FUNCTIONS, Function, Kind};
use crate::error::{NAME_CHARS_MAX, WasmError, clipped};
use crate::limits::Limits;
use wasmtime::{ExternType, FuncType, MemoryType};

/// Returns the kind of the guest.
///
/// # Errors
/// The first violation of the ABI.
pub(crate) fn kind(module: &wasmtime::Module, limits: &Limits) -> Result<Kind, WasmError> {
    if let Some(import) = module.imports().next() {
        let (module, name) = (brief(import.module()), brief(import.name()));
        return Err(WasmError::Import { module, name });
    }
    check_version(module)?;
    let exports = |name| module.get_export(name).is_some();
    let kind = match (exports(abi::REDUCE), exports(abi::UP)) {
        (true, false) => Kind::Reduce,
        (false, true) => Kind::Filter,
        (both, _) => return Err(WasmError::KindUnclear { found: 2 * u8::from(both) }),
    };
    check_memory(module, limits)?;
    check_tables(module, limits)?;
    for function in FUNCTIONS.iter().filter(|function| function.kind.is_none_or(|of| of == kind)) {
        check_function(module, function)?;
    }
    let known = |name: &str| {
        FUNCTIONS.iter().any(|function| function.name == name && function.kind.is_none_or(|of| of == kind))
    };
    match module.exports().find(|export| export.name().starts_with(abi::PREFIX) && !known(export.name())) {
        Some(stray) => Err(WasmError::UnknownExport { name: brief(stray.name()) }),
        None => Ok(kind),
    }
}

/// Shortens a name from the module for an error message.
fn brief(name: &str) -> String {
    clipped(name, NAME_CHARS_MAX)
}

/// Returns the version of the ABI that a module declares.
pub(crate) fn version(module: &wasmtime::Module) -> Option<u32> {
    module.exports().find_map(|export| export.name().strip_prefix(abi::VERSION_PREFIX)?.parse().ok())
}

fn check_version(module: &wasmtime::Module) -> Result<(), WasmError> {
    if module.get_export(abi::VERSION).is_some() {
        return Ok(());
    }
    Err(version(module).map_or(WasmError::NoAbi, |found| WasmError::AbiVersion { found }))
}

fn check_memory(module: &wasmtime::Module, limits: &Limits) -> Result<(), WasmError> {
    const EXPECTED: &str = "a memory of 32-bit addresses and pages of 64 KiB, not shared";
    let memory = match module.get_export(abi::MEMORY) {
        Some(ExternType::Memory(memory)) => memory,
        Some(other) => {
            let (name, found) = (abi::MEMORY.to_owned(), type_text(&other));
            return Err(WasmError::Signature { name, found, expected: EXPECTED.to_owned() });
        }
        None => {
            return Err(WasmError::MissingExport { name: abi::MEMORY, expected: EXPECTED.to_owned() });
        }
    };
    let bytes = memory.minimum().saturating_mul(memory.page_size());
    if memory.is_64() || memory.is_shared() || memory.page_size_log2() != 16 {
        let (name, found) = (abi::MEMORY.to_owned(), memory_text(&memory));
        Err(WasmError::Signature { name, found, expected: EXPECTED.to_owned() })
    } else if bytes > limits.memory_bytes_max as u64 {
        Err(WasmError::MemoryTooLarge { bytes, bytes_max: limits.memory_bytes_max })
    } else {
        Ok(())
    }
}

fn check_tables(module: &wasmtime::Module, limits: &Limits) -> Result<(), WasmError> {
    let (tables, elements_max) = (module.resources_required(), limits.table_elements_max as u64);
    let elements = tables.max_initial_table_size.unwrap_or(0);
    if tables.num_tables > 1 || elements > elements_max {
        let reason = format!(
            "{} tables, the largest of {elements} elements; allowed: one of {elements_max} (table_elements_max)",
            tables.num_tables
        );
        return Err(WasmError::Unrunnable { reason });
    }
    Ok(())
}

fn check_function(module: &wasmtime::Module, function: &Function) -> Result<(), WasmError> {
    let expected = || format!("func {}", function.signature);
    match module.get_export(function.name) {
        Some(ExternType::Func(found)) if signature(&found) == function.signature => Ok(()),
        Some(found) => {
            let (name, found) = (function.name.to_owned(), type_text(&found));
            Err(WasmError::Signature { name, found, expected: expected() })
        }
        None if function.required => {
            Err(WasmError::MissingExport { name: function.name, expected: expected() })
        }
        None => Ok(()),
    }
}

/// Formats a function's type: `(i32, i32) -> i64`.
pub(crate) fn signature(function: &FuncType) -> String {
    let list = |types: &mut dyn Iterator<Item = wasmtime::ValType>| {
        types.map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
    };
    let (params, results) = (list(&mut function.params()), list(&mut function.results()));
    if results.is_empty() { format!("({params})") } else { format!("({params}) -> {results}") }
}

/// Formats any external type.
pub(crate) fn type_text(any: &ExternType) -> String {
    match any {
        ExternType::Func(function) => format!("func {}", signature(function)),
        ExternType::Memory(memory) => memory_text(memory),
        ExternType::Global(global) => format!("global {}", global.content()),
        ExternType::Table(table) => format!("table of {} elements", table.minimum()),
        ExternType::Tag(_) => "tag".to_owned(),
    }
}

fn memory_text(memory: &MemoryType) -> String {
    let (shared, wide) = (memory.is_shared(), memory.is_64());
    let word = |is: bool, word: &'static str| if is { word } else { "" };
    format!("{}{}memory of {} pages", word(shared, "shared "), word(wide, "64-bit "), memory.minimum())
}
