//! The errors of exec services: of their declaration, and of one run of their command.

use crate::params::{QUERY_BYTES_MAX, STDIN_BYTES_MAX};

/// A declaration that cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The command line has no words, or quotes that do not close.
    #[error("{0:?} is not a command line: expected words, with quotes that close")]
    CommandLine(String),
    /// The caller would choose the program.
    #[error("the program of {0:?} must not contain a placeholder: callers would choose what runs")]
    ProgramIsAPlaceholder(String),
    /// The query would be part of other text, which a tool could read as code.
    #[error(
        "in {0:?}, {{query}} stands inside other text; expected a word of its own, or one behind an option or a name, as in \
         -e{{query}} and name={{query}}. A shell gets it as in sh -c 'grep -e \"$1\" file' -- {{query}}"
    )]
    QueryInsideText(String),
    /// A shell would run the query.
    #[error("{0:?} is the script of a shell: callers would choose what runs")]
    QueryIsAScript(String),
    /// A placeholder that has no value here.
    #[error("{word:?} of {command} has no value here; allowed: {allowed}")]
    Placeholder {
        /// The word of the command line.
        word: String,
        /// `command`, `reduce-command` or `dir`.
        command: &'static str,
        /// Placeholders that have a value.
        allowed: &'static str,
    },
    /// Only one of the two partials would be read.
    #[error("a reduce-command names both {{a}} and {{b}}, or neither and reads both from its standard input")]
    OnePartial,
    /// The command could not tell which part of its output is asked for.
    #[error("a command names both {{slice}} and {{slices}}, or neither")]
    OneOfSlices,
    /// The program is not there.
    #[error("no program {0:?} was found in PATH")]
    NoProgram(String),
    /// The working directory is not there.
    #[error("{0}: not a directory")]
    NoDirectory(String),
    /// The thread that runs processes could not be started.
    #[error("can't start the thread of the service's processes: {0}")]
    Thread(#[source] std::io::Error),
}

/// A run of a command that gave no partial. The process and its group have ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The command could not be started.
    #[error("can't start {program}: {cause}")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The command ended with a code that means failure.
    #[error("{program} exited with code {code}{}", said(.stderr))]
    Exit {
        /// The program.
        program: String,
        /// Its exit code.
        code: i32,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// A signal ended the command.
    #[error("{program} was ended by signal {signal}{}", said(.stderr))]
    Signal {
        /// The program.
        program: String,
        /// The number of the signal.
        signal: i32,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// The command printed too much.
    #[error("{program} printed more than {max} bytes (output) and was killed")]
    Output {
        /// The program.
        program: String,
        /// The limit in bytes.
        max: usize,
    },
    /// The command ended, and a process of it that left its group did not.
    #[error("{program} ended, but a process that has left its group still holds its output open")]
    Held {
        /// The program.
        program: String,
    },
    /// The system refused an operation on the running process.
    #[error("{program}: {cause}")]
    System {
        /// The program.
        program: String,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The command needs a query, and the parameters have none.
    #[error(
        "this service's command needs a query: give a text, a number, or a map with the field `query`, as in \
         {{\"query\": \"text\"}}"
    )]
    NoQuery,
    /// The tool would read the query as an option.
    #[error(
        "the query begins with `-`, which the command would read as an option; the service must give it as `-- {{query}}` \
         or behind a prefix, as in -e{{query}}"
    )]
    QueryIsAnOption,
    /// An argument cannot contain a zero byte.
    #[error("the query contains a zero byte, which no argument can")]
    ZeroByte,
    /// The query is too long for an argument.
    #[error("the query has {0} bytes; allowed: at most {QUERY_BYTES_MAX}")]
    LongQuery(usize),
    /// The parameters are too long for standard input.
    #[error("the parameters have {0} bytes; allowed: at most {STDIN_BYTES_MAX}")]
    LongParams(usize),
    /// The parameters are not text, numbers, lists or maps.
    #[error("the parameters are not a JSON value in MessagePack: {0}")]
    Params(String),
    /// The service's thread ended meanwhile.
    #[error("the service is closing")]
    Closing,
}

/// Formats the last lines of standard error behind an error, if there are any.
fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}
