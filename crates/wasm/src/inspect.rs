//! What a file is, and why a node would refuse it: for whoever has a guest in hand and no cluster.

use crate::abi::{self, Kind};
use crate::contract::{self, type_text};
use crate::engine::{self, Engine};
use crate::error::WasmError;
use crate::id::ModuleId;
use crate::limits::Limits;
use serde::{Deserialize, Serialize};
use wasmtime::ExternType;

/// What there is to say of a module without running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// What it is called.
    pub id: ModuleId,
    /// Its bytes.
    pub bytes: usize,
    /// Its bytes once compiled here.
    pub compiled_bytes: usize,
    /// What it is; `None` when it is no guest.
    pub kind: Option<Kind>,
    /// The version of the ABI that it says it speaks.
    pub abi: Option<u32>,
    /// Its memory, if it exports one.
    pub memory: Option<MemoryPages>,
    /// What it exports.
    pub exports: Vec<Named>,
    /// What it imports; a guest may import nothing.
    pub imports: Vec<Named>,
    /// Why a node with these limits refuses it; `None` when it takes it.
    pub refused: Option<String>,
}

/// A memory in pages of 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPages {
    /// What it begins with.
    pub min: u64,
    /// What it may grow to by its own word.
    pub max: Option<u64>,
}

/// An export or import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name; an import's has the module's name and a dot before it.
    pub name: String,
    /// Its type as one writes it.
    pub r#type: String,
}

/// Looks at a module as a node with these limits would, and runs nothing of it.
///
/// # Errors
/// [`WasmError::Invalid`] and [`WasmError::ModuleTooLarge`]: there is nothing to look at. Whatever else makes a node
/// refuse it is in the inspection.
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
