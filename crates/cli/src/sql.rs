//! SQL, which another program's engine answers.
//!
//! The engine is DuckDB. It has a module for Python and no small one for Rust, so the Python package runs this program
//! in its process and lends it a [`Host`]: one function makes a service of a folder of tables, and one asks a query.
//! The program has the grammar of both and everything else of a node. Without a host, it says how to install one.

use crate::exit::{Failure, Verdict};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use treefold::{PartitionSet, Service};

/// Default name of a service of tables.
pub const SERVICE: &str = "sql";

static HOST: OnceLock<Host> = OnceLock::new();

/// Makes a service of a folder, from these partitions and their total.
pub type Serve = dyn Fn(&Tables, &PartitionSet, u32) -> Result<Service, String> + Send + Sync;
/// Asks a query and prints the answer. Returns the exit code, and the message of a failure.
pub type Ask = dyn Fn(&Query) -> (u8, String) + Send + Sync;

/// The engine of another program.
pub struct Host {
    /// Makes a service of a folder.
    pub serve: Box<Serve>,
    /// Asks a query.
    pub ask: Box<Ask>,
}

/// A folder of tables, as `--serve sql=…` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    pub folder: PathBuf,
    /// The service's name.
    pub name: String,
    /// Most memory of the engine, as in `4GB`; `None` for the engine's default.
    pub memory: Option<String>,
    /// Threads of the engine; `None` for one on each processor.
    pub threads: Option<u32>,
    /// True if the folder has the files of one partition only.
    pub is_dealt: bool,
}

/// A query, as `treefold sql` gets it.
#[derive(Clone, Debug)]
pub struct Query {
    pub sql: String,
    pub at: Vec<String>,
    pub service: String,
    pub cluster: String,
    pub deadline: Duration,
    pub min_coverage: f64,
    /// `text`, `json` or `csv`.
    pub output: &'static str,
    /// True to print the plan instead of the answer.
    pub plan: bool,
}

/// Lends an engine to this process. The first one stays.
pub(crate) fn lend(host: Host) {
    let _ = HOST.set(host);
}

fn missing(what: &str) -> String {
    format!(
        "{what} needs DuckDB, which this program is built without; `pip install 'treefold[sql]'` installs a command \
         `treefold` that has it and takes the same arguments"
    )
}

impl Tables {
    /// Makes the service with its partitions.
    ///
    /// May block: the engine reads the files' schemas.
    pub(crate) fn service(&self, partitions: &PartitionSet, total: u32) -> Result<Service, String> {
        let host = HOST.get().ok_or_else(|| missing("--serve sql=DIR"))?;
        (host.serve)(self, partitions, total)
            .map_err(|error| format!("--serve sql={}: {error}", self.folder.display()))
    }
}

/// Asks the query, and prints the answer.
pub(crate) fn ask(query: &Query) -> Result<Verdict, Failure> {
    let host = HOST.get().ok_or_else(|| Failure::failed(missing("treefold sql")))?;
    match (host.ask)(query) {
        (0, _) => Ok(Verdict::Full),
        (2, error) => Err(Failure::usage(error)),
        (3, _) => Ok(Verdict::Partial),
        (4, _) => Ok(Verdict::Insufficient),
        (5, error) => Err(Failure::unreachable(error)),
        (_, error) => Err(Failure::failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_engine_the_error_says_how_to_install_one() {
        let tables = Tables {
            folder: "/srv".into(),
            name: SERVICE.to_owned(),
            memory: None,
            threads: None,
            is_dealt: false,
        };
        let refused = tables.service(&[0].into_iter().collect(), 1).unwrap_err();
        assert!(
            refused.contains("--serve sql=DIR needs DuckDB")
                && refused.contains("pip install 'treefold[sql]'")
        );
    }
}
