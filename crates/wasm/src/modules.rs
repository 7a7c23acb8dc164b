//! The modules that a node holds.
//!
//! Each is compiled once, even if several threads request it. The least recently used are evicted when the
//! modules take too many bytes. An evicted module stays alive in the open streams and calls that use it. The
//! next request for it fetches it again.

use crate::engine::Engine;
use crate::error::WasmError;
use crate::id::ModuleId;
use crate::module::Module;
use bytes::Bytes;
use lru::LruCache;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Modules by name, shared by threads.
pub struct Modules {
    engine: Engine,
    shelf: Mutex<Shelf>,
    /// Signalled when a compilation has ended.
    resolved: Condvar,
}

struct Shelf {
    held: LruCache<ModuleId, Module>,
    held_bytes: usize,
    compiling: BTreeSet<ModuleId>,
}

impl Modules {
    /// Creates an empty cache. `engine` compiles its modules, and its `modules_bytes_max` bounds them.
    pub fn new(engine: Engine) -> Self {
        // `put` bounds its bytes.
        let shelf = Shelf { held: LruCache::unbounded(), held_bytes: 0, compiling: BTreeSet::new() };
        Self { engine, shelf: Mutex::new(shelf), resolved: Condvar::new() }
    }

    /// Returns the engine that compiles.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the module of these bytes, and compiles it unless it is held.
    ///
    /// If another thread is compiling it, this one waits for the result. Compiling takes time, so don't call
    /// this on a node's loop.
    ///
    /// # Errors
    /// As [`Engine::compile`], and [`WasmError::CacheTooSmall`].
    pub fn compile(&self, bytes: impl Into<Bytes>) -> Result<Module, WasmError> {
        let bytes = bytes.into();
        let (len, bytes_max) = (bytes.len(), self.engine.limits().module_bytes_max);
        if len > bytes_max {
            // Checked before the bytes are hashed.
            return Err(WasmError::ModuleTooLarge { bytes: len, bytes_max });
        }
        let id = ModuleId::of(&bytes);
        let mut shelf = self.shelf();
        loop {
            if let Some(module) = shelf.find(&id) {
                return Ok(module);
            }
            if shelf.compiling.insert(id) {
                break;
            }
            shelf = self.resolved.wait(shelf).unwrap_or_else(PoisonError::into_inner);
        }
        drop(shelf);
        let _announced = Compiling { modules: self, id };
        let module = self.engine.compile(bytes)?;
        self.shelf().put(module.clone(), self.engine.limits().modules_bytes_max)?;
        Ok(module)
    }

    /// Returns the module with this name if it is held; this counts as a use.
    pub fn find(&self, id: &ModuleId) -> Option<Module> {
        self.shelf().find(id)
    }

    /// Returns all held modules, sorted by name; this does not count as a use.
    pub fn list(&self) -> Vec<Module> {
        let mut all: Vec<Module> = self.shelf().held.iter().map(|(_, module)| module.clone()).collect();
        all.sort_unstable_by_key(Module::id);
        all
    }

    /// Returns the bytes of all held modules, as sent and as compiled.
    pub fn held_bytes(&self) -> usize {
        self.shelf().held_bytes
    }

    /// Drops a module. Returns false if it was not held.
    pub fn forget(&self, id: &ModuleId) -> bool {
        self.shelf().take(id)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // No panic can happen between the steps of a change, so a poisoned shelf is still consistent.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn find(&mut self, id: &ModuleId) -> Option<Module> {
        self.held.get(id).cloned()
    }

    fn take(&mut self, id: &ModuleId) -> bool {
        let taken = self.held.pop(id);
        self.held_bytes -= taken.as_ref().map_or(0, Module::held_bytes);
        taken.is_some()
    }

    fn put(&mut self, module: Module, bytes_max: usize) -> Result<(), WasmError> {
        let bytes = module.held_bytes();
        if bytes > bytes_max {
            return Err(WasmError::CacheTooSmall { bytes, bytes_max });
        }
        while self.held_bytes + bytes > bytes_max {
            let (_, oldest) = self.held.pop_lru().expect("invariant: bytes are held by modules");
            self.held_bytes -= oldest.held_bytes();
        }
        self.held_bytes += bytes;
        self.held.put(module.id(), module);
        Ok(())
    }
}

/// Wakes the waiting threads when it is dropped, also if the compiler panics.
struct Compiling<'a> {
    modules: &'a Modules,
    id: ModuleId,
}

impl Drop for Compiling<'_> {
    fn drop(&mut self) {
        self.modules.shelf().compiling.remove(&self.id);
        self.modules.resolved.notify_all();
    }
}

impl fmt::Debug for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shelf = self.shelf();
        f.debug_struct("Modules")
            .field("held", &shelf.held.len())
            .field("held_bytes", &shelf.held_bytes)
            .finish_non_exhaustive()
    }
}
