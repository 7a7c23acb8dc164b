//! The aggregation of an exec service.

use crate::error::{RunError, SpecError};
use crate::params::Params;
use crate::partial::Partial;
use crate::process::Run;
use crate::reduce::Ready;
use crate::runner::Runner;
use crate::template::{A, B, PARTITION, QUERY, SLICE, SLICES, TOTAL, Template, Values, directory};
use bytes::Bytes;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use treefold_operators::{
    AsyncAggregation, Declared, Operator, OperatorError, Partition, ReduceParams, Result, Slice,
};

/// Begins the names of ready reduces of text in declarations: other ready reduces have the same names.
const PREFIX: &str = "exec/";

/// The operator of a reduce that an exec service has declared.
pub fn declared(reduce: &str) -> Option<Arc<dyn Operator>> {
    Ready::declared(reduce.strip_prefix(PREFIX)?).map(Ready::operator)
}

/// Largest text in bytes that is folded on the node's loop; larger ones take a thread.
const INLINE_BYTES_MAX: usize = 16 << 10;

/// The declaration of an exec service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The command of a local.
    pub command: Template,
    /// The fold of two partials.
    pub reduce: Reduce,
    /// The working directory of locals, with placeholders; `None` for the node's own.
    pub directory: Option<String>,
    /// The bounds of each process.
    pub limits: Limits,
    /// Exit codes besides 0 with which a command's output is an answer. Tools such as `grep` exit with 1 if they
    /// found nothing.
    pub empty: Vec<i32>,
}

/// The fold of two partials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// A ready reduce.
    Ready(Ready),
    /// A command, which reads both partials and prints one.
    Command(Template),
    /// A module, with which the node folds.
    Module,
}

/// The bounds of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of standard output. A command that prints more is killed.
    pub output_bytes_max: usize,
    /// Most bytes of address space (`RLIMIT_AS`), for each process of a command by itself; `None` for no limit.
    pub memory_bytes_max: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { output_bytes_max: 16 << 20, memory_bytes_max: Some(2 << 30) }
    }
}

/// An exec service's aggregation. A partition needs no data.
#[derive(Debug)]
pub struct Exec {
    spec: Arc<Spec>,
    runner: Runner,
}

impl Exec {
    /// Checks that the programs and directories are there, and starts the thread of its processes.
    ///
    /// # Errors
    /// If something is missing.
    pub fn open(
        spec: Spec,
        partitions: impl IntoIterator<Item = u32>,
        total: u32,
    ) -> Result<Self, SpecError> {
        find(spec.command.program())?;
        if let Reduce::Command(command) = &spec.reduce {
            find(command.program())?;
        }
        for partition in partitions {
            let found = spec.directory.as_ref().map(|text| directory(text, partition, total)).transpose()?;
            if let Some(missing) = found.filter(|path| !Path::new(path).is_dir()) {
                return Err(SpecError::NoDirectory(missing));
            }
        }
        Ok(Self { spec: Arc::new(spec), runner: Runner::start().map_err(SpecError::Thread)? })
    }

    fn run_of(&self, template: &Template, values: &Values<'_>, input: Bytes) -> Result<Run, RunError> {
        let Limits { output_bytes_max, memory_bytes_max } = self.spec.limits;
        Ok(Run {
            program: template.program().to_owned(),
            arguments: template.arguments(values)?,
            directory: None,
            input,
            output_bytes_max,
            memory_bytes_max,
            empty: self.spec.empty.clone(),
        })
    }

    /// Folds with a command.
    async fn reduce_by(&self, template: &Template, a: Bytes, b: Bytes, params: &Params) -> Result<Partial> {
        let query = template.has(QUERY).then(|| params.query()).transpose()?;
        let mut values = Values { query: query.as_deref(), others: Vec::new() };
        let output = if template.has(A) {
            // The files live until the command has ended.
            let (a, b) = self.runner.compute(move || Ok::<_, RunError>((file(&a)?, file(&b)?))).await??;
            values.others = vec![(A, a.path().display().to_string()), (B, b.path().display().to_string())];
            let run = self.run_of(template, &values, Bytes::new())?;
            self.runner.run(run).await?
        } else {
            let run = self.run_of(template, &values, [a, b].concat().into())?;
            self.runner.run(run).await?
        };
        Ok(Partial::text(output))
    }

    /// Folds with a ready reduce: here if it is quick, else on a thread.
    async fn fold(
        &self,
        bytes: usize,
        fold: impl FnOnce() -> Result<Partial> + Send + 'static,
    ) -> Result<Partial> {
        if bytes <= INLINE_BYTES_MAX { fold() } else { self.runner.compute(fold).await? }
    }
}

impl AsyncAggregation for Exec {
    type Params = Params;
    type Partial = Partial;

    async fn local(&self, partition: Partition, params: Arc<Params>) -> Result<Partial> {
        self.local_slice(partition, Slice::WHOLE, params).await
    }

    /// A command that has the placeholders makes the slice that it is asked for.
    fn gives_slices(&self) -> bool {
        self.spec.command.has(SLICE)
    }

    async fn local_slice(&self, partition: Partition, slice: Slice, params: Arc<Params>) -> Result<Partial> {
        let Spec { command, reduce, directory: place, .. } = &*self.spec;
        let (id, total) = (partition.id, partition.total);
        let others = vec![
            (PARTITION, id.to_string()),
            (TOTAL, total.to_string()),
            (SLICE, slice.index().to_string()),
            (SLICES, slice.of().to_string()),
        ];
        let run_with = |params: &Params| {
            let query = command.has(QUERY).then(|| params.query()).transpose()?;
            let input = if query.is_some() { Bytes::new() } else { params.stdin()? };
            self.run_of(command, &Values { query: query.as_deref(), others }, input)
        };
        let mut run = run_with(&params).map_err(OperatorError::invalid_params)?;
        run.directory = place.as_ref().map(|text| directory(text, id, total)).transpose()?.map(PathBuf::from);
        let output = self.runner.run(run).await?;
        match *reduce {
            Reduce::Command(_) | Reduce::Module => Ok(Partial::text(output)),
            Reduce::Ready(ready) => self.fold(output.len(), move || ready.lift(id, output)).await,
        }
    }

    async fn reduce(&self, a: Partial, b: Partial, params: Arc<Params>) -> Result<Partial> {
        match &self.spec.reduce {
            Reduce::Ready(ready) => {
                let (ready, bytes) = (*ready, a.bytes() + b.bytes());
                self.fold(bytes, move || ready.merge(a, b)).await
            }
            Reduce::Command(template) => {
                self.reduce_by(template, a.into_text()?, b.into_text()?, &params).await
            }
            Reduce::Module => Err(OperatorError::new("the node has not loaded the module")),
        }
    }

    fn declared(&self) -> Option<Declared> {
        match &self.spec.reduce {
            Reduce::Ready(ready) => Some(Declared {
                reduce: format!("{PREFIX}{ready}"),
                params: ReduceParams::Fixed(Bytes::new()),
            }),
            Reduce::Command(_) | Reduce::Module => None,
        }
    }

    fn holds_processor(&self) -> bool {
        true
    }
}

/// Writes a partial to a temporary file, which only this user can read.
fn file(content: &[u8]) -> Result<tempfile::NamedTempFile, RunError> {
    let written = tempfile::NamedTempFile::new().and_then(|mut file| file.write_all(content).map(|()| file));
    written.map_err(|cause| RunError::System { program: "a temporary file".to_owned(), cause })
}

/// Checks that a program can be found. A path is checked when it runs, because it may depend on the directory.
fn find(program: &str) -> Result<(), SpecError> {
    let is_in = |directory: PathBuf| directory.join(program).is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    if program.contains('/') || std::env::split_paths(&path).any(is_in) {
        return Ok(());
    }
    Err(SpecError::NoProgram(program.to_owned()))
}
