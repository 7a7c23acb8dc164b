//! Describes a module file, and says why a node would refuse it. It needs no cluster.

use crate::abi::{self, Kind};
use crate::contract::{self, type_text};
use crate::engine::{self, Engine};
use crate::error::WasmError;
use crate::id::ModuleId;
use crate::limits::Limits;
use serde::{Deserialize, Serialize};
use wasmtime::ExternType;

/// A description of a module, made without running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// The module's name.
    pub id: ModuleId,
    /// Bytes of the module.
    pub bytes: usize,
    /// Bytes of the module compiled on this machine.
    pub compiled_bytes: usize,
    /// The kind of guest; `None` if the module is not a valid guest.
    pub kind: Option<Kind>,
    /// The version of the ABI that it declares.
    pub abi: Option<u32>,
    /// Its memory, if it exports one.
    pub memory: Option<MemoryPages>,
    /// The exports.
    pub exports: Vec<Named>,
    /// The imports; a guest may import nothing.
    pub imports: Vec<Named>,
    /// The reason why a node with these limits refuses it; `None` if a node accepts it.
    pub refused: Option<String>,
}

/// A memory in pages of 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPages {
    /// The initial number of pages.
    pub min: u64,
    /// The greatest number of pages that the module declares.
    pub max: Option<u64>,
}

/// An export or import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The name; an import's name is preceded by its module's name and a dot.
    pub name: String,
    /// The formatted type.
    pub r#type: String,
}

/// Inspects a module as a node with these limits would, without running it.
///
/// # Errors
/// [`WasmError::Invalid`] and [`WasmError::ModuleTooLarge`]: there is nothing to inspect. Every other reason
/// to refuse the module is in the inspection.
pub fn inspect(bytes: &[u8], limits: &Limits) -> Result<Inspection, WasmError> {
    let module = engine::validated(&Engine::for_inspection(limits)?, bytes, limits)?;
    let kind = contract::kind(&module, limits);
    let memory = match module.get_export(abi::MEMORY) {
        Some(ExternType::Memory(memory)) => {
            Some(MemoryPages { min: memory.minimum(), max: memory.maximum() })
        }
        _ => None,
    };
    let named = |name: String, any: &ExternType| Named { name, r#type: type_text(any) };
    let image = module.image_range();
    Ok(Inspection {
        id: ModuleId::of(bytes),
        bytes: bytes.len(),
        compiled_bytes: image.end.addr() - image.start.addr(),
        kind: kind.as_ref().ok().copied(),
        abi: contract::version(&module),
        memory,
        exports: module.exports().map(|export| named(export.name().to_owned(), &export.ty())).collect(),
        imports: module
            .imports()
            .map(|import| named(format!("{}.{}", import.module(), import.name()), &import.ty()))
            .collect(),
        refused: kind.err().map(|error| error.to_string()),
    })
}
