//! The command line `treefold`, run by this process, with the SQL engine of the package's Python part.

use crate::ending;
use crate::node::service_of;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use treefold::{PartitionSet, Service};
use treefold_cli::sql::{Host, Query, Tables};

/// The exit code of a failure.
const FAILED: u8 = 1;

/// Runs the command line `words`, the program's name first, and returns its exit code. `program` is the file that starts
/// it, `serve` makes the service of `--serve sql=…`, and `ask` asks the query of `treefold sql`.
#[pyfunction]
pub(crate) fn run_command(
    py: Python<'_>,
    program: PathBuf,
    words: Vec<OsString>,
    serve: Py<PyAny>,
    ask: Py<PyAny>,
) -> u8 {
    let (serve, ask) = (Arc::new(serve), Arc::new(ask));
    let host = Host {
        serve: Box::new(move |tables, partitions, total| {
            let made = ending::attach(|py| {
                service(py, &serve, tables, partitions, total).map_err(|error| text(py, &error))
            });
            made.unwrap_or_else(|| Err("the interpreter is shutting down".to_owned()))
        }),
        ask: Box::new(move |query| {
            let asked = ending::attach(|py| match asked(py, &ask, query) {
                Ok(answer) => answer,
                Err(error) => (FAILED, text(py, &error)),
            });
            asked.unwrap_or_else(|| (FAILED, "the interpreter is shutting down".to_owned()))
        }),
    };
    let code = py.detach(|| treefold_cli::treefold_of(program, &words, host));
    // An `ExitCode` can be compared, but not read.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}

fn text(py: Python<'_>, error: &PyErr) -> String {
    error.value(py).to_string()
}

fn service(
    py: Python<'_>,
    serve: &Py<PyAny>,
    tables: &Tables,
    partitions: &PartitionSet,
    total: u32,
) -> PyResult<Service> {
    let options = PyDict::new(py);
    options.set_item("memory", tables.memory.as_deref())?;
    options.set_item("threads", tables.threads)?;
    options.set_item("is_dealt", tables.is_dealt)?;
    let ids: Vec<u32> = partitions.iter().collect();
    let spec = serve.bind(py).call((tables.folder.as_os_str(), ids, total, &tables.name), Some(&options))?;
    service_of(py, spec.extract()?)
}

fn asked(py: Python<'_>, ask: &Py<PyAny>, query: &Query) -> PyResult<(u8, String)> {
    let options = PyDict::new(py);
    options.set_item("at", &query.at)?;
    options.set_item("service", &query.service)?;
    options.set_item("cluster", &query.cluster)?;
    options.set_item("deadline", query.deadline.as_secs_f64())?;
    options.set_item("min_coverage", query.min_coverage)?;
    options.set_item("output", query.output)?;
    options.set_item("plan", query.plan)?;
    ask.bind(py).call((&query.sql,), Some(&options))?.extract()
}
