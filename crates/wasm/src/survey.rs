//! A first look at a module, which bounds what the compiler is given.
//!
//! A compilation cannot be interrupted, so its time and memory must follow from the module. The bytes of a module are no
//! such bound. A function without a body's worth of code still costs a tenth of a millisecond. Within a function, the work
//! grows with the square of the number of its branches, and with their product with its variables, because the compiler looks
//! at each variable where two paths of control meet. It grows faster still with the depth of nested loops. Each of these has a
//! limit. The look itself takes time in proportion to the bytes.
//!
//! `examples/compile_cost.rs` measures what modules within the limits can cost.

use crate::error::WasmError;
use crate::limits::Limits;
use wasmparser::{BinaryReaderError, BlockType, CompositeInnerType, FunctionBody, Operator, Parser, Payload};

/// Types, globals, exports and other entries of a section.
const ENTRIES_MAX: u32 = 10_000;
/// Parameters of a function. All of them are variables.
const PARAMS_MAX: usize = 64;
/// Results of a function, and parameters and results of a block: each branch to its end carries them.
const CARRIED_MAX: usize = 8;

/// A variable that lives across branches costs as much as so many branches.
const VARIABLE_WEIGHT: u64 = 4;
/// Depth of nested loops.
const LOOPS_NESTED_MAX: u64 = 32;

/// The reason why a module is not compiled.
#[derive(Debug)]
pub(crate) enum Objection {
    /// The bytes are no module.
    Malformed(BinaryReaderError),
    /// The module is above a limit.
    TooComplex(WasmError),
}

impl From<BinaryReaderError> for Objection {
    fn from(error: BinaryReaderError) -> Self {
        Self::Malformed(error)
    }
}

/// The figures of a module that bound the work of the compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Number of functions with a body.
    pub(crate) functions: u64,
    /// Bytes of all bodies.
    pub(crate) code_bytes: u64,
    /// Bytes of the largest body.
    pub(crate) largest_bytes: u64,
    /// Variables of the function with the most.
    pub(crate) most_variables: u64,
    /// As [`Limits::flow_max`].
    pub(crate) flow: u64,
}

/// The nesting of blocks at one place of a function.
#[derive(Debug, Default)]
struct Nesting {
    /// Whether each open block is a loop.
    blocks: Vec<bool>,
    loops: u64,
}

impl Nesting {
    fn enter(&mut self, is_loop: bool) -> Result<(), Objection> {
        self.blocks.push(is_loop);
        self.loops += u64::from(is_loop);
        within("nested loops", LOOPS_NESTED_MAX, self.loops)
    }

    fn leave(&mut self) {
        // The end of the function itself ends no block.
        self.loops -= u64::from(self.blocks.pop().unwrap_or_default());
    }
}

/// Looks at a module.
///
/// # Errors
/// If the bytes are no module, or the module is above a limit.
pub(crate) fn survey(bytes: &[u8], limits: &Limits) -> Result<Survey, Objection> {
    let mut survey = Survey::default();
    // Types, as their parameters and carried values; functions, as indices of types.
    let (mut types, mut functions) = (Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::TypeSection(section) => {
                entries("types", section.count())?;
                for group in section {
                    for subtype in group?.into_types() {
                        let CompositeInnerType::Func(function) = subtype.composite_type.inner else {
                            types.push((0, 0));
                            continue;
                        };
                        let (params, results) = (function.params().len(), function.results().len());
                        within("parameters of a function", PARAMS_MAX as u64, params as u64)?;
                        within("results of a function", CARRIED_MAX as u64, results as u64)?;
                        types.push((params, results));
                    }
                }
            }
            Payload::FunctionSection(section) => {
                within("functions_max", limits.functions_max.into(), section.count().into())?;
                for of_type in section {
                    functions.push(of_type?);
                }
            }
            Payload::ImportSection(section) => entries("imports", section.count())?,
            Payload::TableSection(section) => entries("tables", section.count())?,
            Payload::GlobalSection(section) => entries("globals", section.count())?,
            Payload::ExportSection(section) => entries("exports", section.count())?,
            Payload::ElementSection(section) => entries("elements", section.count())?,
            Payload::DataSection(section) => entries("segments of data", section.count())?,
            Payload::TagSection(section) => entries("tags", section.count())?,
            Payload::CodeSectionEntry(body) => {
                let of_type = functions.get(survey.functions as usize).copied();
                let params = of_type.and_then(|at| types.get(at as usize)).map_or(0, |of_type| of_type.0);
                survey.add(&body, params as u64, &types, limits)?;
            }
            _ => {}
        }
    }
    Ok(survey)
}

impl Survey {
    fn add(
        &mut self,
        body: &FunctionBody<'_>,
        params: u64,
        types: &[(usize, usize)],
        limits: &Limits,
    ) -> Result<(), Objection> {
        self.functions += 1;
        let bytes = body.range().len() as u64;
        within("function_bytes_max", limits.function_bytes_max as u64, bytes)?;
        self.largest_bytes = self.largest_bytes.max(bytes);
        self.code_bytes += bytes;
        within("code_bytes_max", limits.code_bytes_max as u64, self.code_bytes)?;
        let mut variables = params;
        for group in body.get_locals_reader()? {
            variables += u64::from(group?.0);
            within("variables_max", limits.variables_max.into(), variables)?;
        }
        self.most_variables = self.most_variables.max(variables);
        let (mut branches, mut nesting) = (1, Nesting::default());
        for operator in body.get_operators_reader()? {
            match operator? {
                Operator::Loop { blockty } => {
                    branches += 1;
                    carried(blockty, types)?;
                    nesting.enter(true)?;
                }
                Operator::Block { blockty } | Operator::If { blockty } => {
                    branches += 1;
                    carried(blockty, types)?;
                    nesting.enter(false)?;
                }
                Operator::End => nesting.leave(),
                Operator::Else | Operator::Br { .. } | Operator::BrIf { .. } => branches += 1,
                Operator::BrTable { targets } => branches += u64::from(targets.len()) + 1,
                // No guest may use other blocks. The validator refuses them.
                _ => {}
            }
        }
        self.flow =
            self.flow.saturating_add((VARIABLE_WEIGHT * variables + branches).saturating_mul(branches));
        within("flow_max", limits.flow_max, self.flow)
    }
}

/// Checks the values that branches to a block carry.
fn carried(block: BlockType, types: &[(usize, usize)]) -> Result<(), Objection> {
    let BlockType::FuncType(of_type) = block else { return Ok(()) };
    let params = types.get(of_type as usize).map_or(0, |of_type| of_type.0);
    within("parameters of a block", CARRIED_MAX as u64, params as u64)
}

fn entries(what: &'static str, count: u32) -> Result<(), Objection> {
    within(what, ENTRIES_MAX.into(), count.into())
}

fn within(what: &'static str, allowed: u64, found: u64) -> Result<(), Objection> {
    if found <= allowed {
        return Ok(());
    }
    Err(Objection::TooComplex(WasmError::TooComplex { what, found, allowed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, limits: &Limits) -> WasmError {
        let module = wat::parse_str(text).expect("the text is a module");
        match survey(&module, limits) {
            Err(Objection::TooComplex(error)) => error,
            other => panic!("expected a refusal: {other:?}"),
        }
    }

    #[test]
    fn figures_of_a_small_module() {
        let text = "(module (func (param i32 i32) (local i64) (loop (br_if 0 (local.get 0)))) (func))";
        let module = wat::parse_str(text).expect("the text is a module");
        let survey = survey(&module, &Limits::DEFAULT).expect("it is small");
        assert_eq!((survey.functions, survey.most_variables, survey.flow), (2, 3, 15 * 3 + 1));
        assert_eq!(survey.code_bytes, survey.largest_bytes + 2);
    }

    #[test]
    fn each_limit_is_named() {
        let limits = Limits {
            functions_max: 3,
            function_bytes_max: 120,
            code_bytes_max: 200,
            variables_max: 50,
            flow_max: 2_000,
            ..Limits::DEFAULT
        };
        let named = |text: &str, name: &str| match refused(text, &limits) {
            WasmError::TooComplex { what, found, allowed } => {
                assert!(what == name && found > allowed, "{what}: {found}, allowed {allowed}");
            }
            other => panic!("{other}"),
        };
        named(&format!("(module {})", "(func)".repeat(4)), "functions_max");
        named(&format!("(module (func {}))", "nop ".repeat(120)), "function_bytes_max");
        named(&format!("(module {})", format!("(func {})", "nop ".repeat(80)).repeat(3)), "code_bytes_max");
        named(&format!("(module (func (local {})))", "i32 ".repeat(51)), "variables_max");
        let branches = "(block (br_if 0 (i32.const 0)))".repeat(15);
        named(&format!("(module (func (local {}) {branches}))", "i32 ".repeat(50)), "flow_max");
        named(&format!("(module (func (param {})))", "i32 ".repeat(65)), "parameters of a function");
        named(&format!("(module (type (func (result {}))))", "i32 ".repeat(9)), "results of a function");
        named(&format!("(module (func {} {}))", "loop ".repeat(33), "end ".repeat(33)), "nested loops");
        let block = format!("(type $t (func (param {})))", "i32 ".repeat(9));
        named(
            &format!("(module {block} (func unreachable (block (type $t) unreachable)))"),
            "parameters of a block",
        );
        named(&format!("(module {})", "(global i32 (i32.const 0))".repeat(10_001)), "globals");
    }

    /// A large guest in Rust, with all operators and its names, has room to grow.
    #[test]
    fn guests_of_this_project_are_far_below_the_limits() {
        let bytes = std::fs::read("fixtures/operators.wasm").expect("a fixture");
        let found = survey(&bytes, &Limits::DEFAULT).expect("it is accepted");
        let limits = Limits::DEFAULT;
        assert!(3 * found.code_bytes <= 2 * limits.code_bytes_max as u64, "{found:?}");
        assert!(2 * found.functions <= limits.functions_max.into(), "{found:?}");
        assert!(2 * found.largest_bytes <= limits.function_bytes_max as u64, "{found:?}");
        assert!(2 * found.most_variables <= limits.variables_max.into(), "{found:?}");
        assert!(2 * found.flow <= limits.flow_max, "{found:?}");
    }

    #[test]
    fn bytes_that_are_no_module_are_malformed() {
        assert!(matches!(survey(b"no module", &Limits::DEFAULT), Err(Objection::Malformed(_))));
    }
}
