//! Functions of rules that are given as files: WebAssembly modules.

use crate::exit::Failure;
use std::collections::BTreeMap;
use std::path::PathBuf;
use treefold::CallError;
use treefold_feed::operating::{FunctionLoader, Module};
use treefold_mirror::Name;
use treefold_mirror::rules::{RuleFile, RuleKind};
use treefold_mirror::select::Functions;

/// A function's name, and the file of its module.
#[derive(Clone, Debug)]
pub(super) struct FunctionFile {
    name: Name,
    path: PathBuf,
}

/// Reads `NAME=FILE`.
pub(super) fn function_file(text: &str) -> Result<FunctionFile, CallError> {
    let wrong = || CallError::bad_field("function", text, "NAME=FILE.wasm, as in even=even.wasm");
    let (name, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or_else(wrong)?;
    Ok(FunctionFile { name: Name::new(name.to_owned()).map_err(|_| wrong())?, path: path.into() })
}

/// The way in which this program makes functions of modules. `None` if it was built without WebAssembly.
pub(super) fn loader() -> Option<FunctionLoader> {
    #[cfg(feature = "wasm")]
    return Some(crate::foreign::functions());
    #[cfg(not(feature = "wasm"))]
    None
}

/// Reads the modules, to send them to an origin.
pub(super) fn read(files: &[FunctionFile]) -> Result<BTreeMap<Name, Module>, Failure> {
    let mut modules = BTreeMap::new();
    for FunctionFile { name, path } in files {
        let failed = |error| Failure::failed(format!("can't read {}: {error}", path.display()));
        let bytes = std::fs::read(path).map_err(failed)?;
        if modules.insert(name.clone(), Module(bytes.into())).is_some() {
            return Err(Failure::usage(format!("the function `{name}` is given twice")));
        }
    }
    Ok(modules)
}

/// Makes the functions that rules name.
pub(super) fn load(files: &[FunctionFile], rules: &RuleFile) -> Result<Functions, Failure> {
    let mut functions = Functions::new();
    for (name, module) in read(files)? {
        let is_used = rules
            .rules
            .iter()
            .any(|rule| matches!(&rule.kind, RuleKind::Function(used) if used.name == name));
        if !is_used {
            return Err(Failure::failed(format!("no rule uses the function `{name}`")));
        }
        let loaded = match loader() {
            Some(load) => load(&module.0),
            None => Err("this program was built without WebAssembly".to_owned()),
        };
        let failed = |problem| Failure::failed(format!("function `{name}`: {problem}"));
        functions.insert(name.clone(), loaded.map_err(failed)?);
    }
    Ok(functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_before_their_files() {
        let read = function_file("even=a=b.wasm").unwrap();
        assert_eq!((read.name.as_str(), read.path.to_str()), ("even", Some("a=b.wasm")));
        assert!(
            ["", "even", "even=", "=a.wasm", "two words=a.wasm"]
                .iter()
                .all(|wrong| function_file(wrong).is_err())
        );
    }
}
