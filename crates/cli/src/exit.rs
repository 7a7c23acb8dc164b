//! How a command ends, and its exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | a full answer, or the command did its work |
//! | 1 | something else went wrong: a file, an operator, a child process |
//! | 2 | invalid arguments, or the call was rejected before any node was asked |
//! | 3 | a partial answer, at or above the minimum coverage |
//! | 4 | less than the minimum coverage: no answer |
//! | 5 | no node could be reached, or no node in sight provides the service |
//!
//! Codes are part of the interface, because scripts branch on them. A partial answer never has code 0.

use crate::output::{self, Format};
use clap::error::{ContextKind, ContextValue};
use serde::Serialize;
use std::error::Error as _;
use std::fmt;
use std::process::ExitCode;
use treefold::{CallError, Status};

/// Result of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A full answer.
    Full,
    /// A partial answer, at or above the minimum coverage.
    Partial,
    /// Below the minimum coverage.
    Insufficient,
}

/// Exit code of a command that was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(u8);

impl Verdict {
    /// Exit code for invalid arguments, the same as clap's.
    pub const USAGE: Code = Code(2);
    const FAILED: Code = Code(1);
    const UNREACHABLE: Code = Code(5);

    /// Its name in JSON, the same as the name of a call's status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => Status::Full.name(),
            Self::Partial => Status::Partial.name(),
            Self::Insufficient => Status::Insufficient.name(),
        }
    }

    /// Returns the verdict of a call that was carried out.
    pub fn of(status: &Status) -> Self {
        match status {
            Status::Full => Self::Full,
            Status::Partial => Self::Partial,
            Status::Insufficient => Self::Insufficient,
            Status::Rejected(_) => {
                unreachable!("invariant: a rejected call has an error and no reply")
            }
        }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(match verdict {
            Verdict::Full => 0,
            Verdict::Partial => 3,
            Verdict::Insufficient => 4,
        })
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

/// Reason why a command was not carried out.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The arguments are invalid together.
    Usage(String),
    /// The call was rejected, here or at the front, before any node was asked.
    Rejected(CallError),
    /// No node answers at the address.
    Unreachable(String),
    /// Anything else.
    Failed(String),
    /// Another failure that the answer on standard output already reports, so that JSON output does not
    /// repeat it.
    Told(String),
    /// Invalid input, whose problems the answer on standard output already lists.
    Listed(String),
}

/// A failure as printed in JSON.
#[derive(Serialize)]
struct Described<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    message: String,
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::Unreachable(message.into())
    }

    /// Returns the failure of a refused argument, if one of [`crate::parse`]'s readers refused it.
    pub fn from_arguments(error: &clap::Error) -> Option<Self> {
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let (field, value) =
            (text(ContextKind::InvalidArg).and_then(field_of), text(ContextKind::InvalidValue));
        let cause = error.source()?;
        Some(Self::Rejected(match cause.downcast_ref::<CallError>() {
            // A reader that several arguments share does not know the argument's name, so clap's name is
            // used. If the reader refused only a part of the value, its error names that part and is used
            // unchanged.
            Some(CallError::BadField { given, limit, .. }) if value == Some(given) => {
                CallError::bad_field(&field?, given, limit)
            }
            Some(refused) => refused.clone(),
            None => CallError::bad_field(&field?, value?, allowed(cause)),
        }))
    }

    fn code(&self) -> Code {
        match self {
            // The name may be mistyped, but all of the service's nodes may also be down.
            Self::Unreachable(_) | Self::Rejected(CallError::UnknownService { .. }) => Verdict::UNREACHABLE,
            Self::Usage(_) | Self::Rejected(_) | Self::Listed(_) => Verdict::USAGE,
            Self::Failed(_) | Self::Told(_) => Verdict::FAILED,
        }
    }

    fn described(&self) -> Described<'_> {
        let plain =
            |kind| Described { kind, field: None, given: None, limit: None, message: self.to_string() };
        match self {
            Self::Usage(_) | Self::Listed(_) => plain("usage"),
            Self::Unreachable(_) => plain("unreachable"),
            Self::Failed(_) | Self::Told(_) => plain("failed"),
            Self::Rejected(CallError::BadField { field, given, limit }) => Described {
                field: Some(field),
                given: Some(given),
                limit: Some(limit.clone()),
                ..plain("bad_field")
            },
            Self::Rejected(CallError::UnknownService { service }) => {
                Described { given: Some(service), ..plain("unknown_service") }
            }
            Self::Rejected(CallError::TooManyCalls { limit }) => {
                Described { limit: Some(limit.to_string()), ..plain("too_many_calls") }
            }
            Self::Rejected(CallError::TooManyCallsOfClient { limit }) => {
                Described { limit: Some(limit.to_string()), ..plain("too_many_calls_of_client") }
            }
            Self::Rejected(CallError::ShuttingDown) => plain("shutting_down"),
            Self::Rejected(CallError::Denied { right, service }) => {
                Described { field: Some(right), given: Some(service), ..plain("denied") }
            }
            Self::Rejected(_) => plain("rejected"),
        }
    }

    /// The name of its kind.
    pub(crate) fn kind(&self) -> &'static str {
        self.described().kind
    }

    /// Prints the failure and returns the exit code.
    pub fn report(&self, format: Format) -> ExitCode {
        if format == Format::Json && !matches!(self, Self::Told(_) | Self::Listed(_)) {
            #[derive(Serialize)]
            struct Wrapped<'a> {
                #[serde(skip_serializing_if = "Option::is_none")]
                status: Option<&'static str>,
                error: Described<'a>,
            }
            let status = matches!(self, Self::Rejected(_)).then_some("rejected");
            output::print_json(&Wrapped { status, error: self.described() });
        }
        crate::tell!("treefold: {self}");
        self.code().into()
    }
}

/// Returns the field that an argument sets, from clap's notation: `--warm-up <S>`, `[FILE]`.
fn field_of(argument: &str) -> Option<String> {
    let name = argument.split_whitespace().next()?.trim_matches(['-', '<', '>', '[', ']', '.']);
    (!name.is_empty()).then(|| name.replace('-', "_").to_lowercase())
}

/// Returns the values that clap's own number readers accept, from their error messages.
fn allowed(cause: &(dyn std::error::Error + 'static)) -> String {
    if cause.is::<std::num::ParseIntError>() {
        return "a whole number".into();
    }
    let said = cause.to_string();
    said.rsplit_once(" is not in ").map_or(said.clone(), |(_, range)| range.replace("..=", " to "))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message)
            | Self::Unreachable(message)
            | Self::Failed(message)
            | Self::Told(message)
            | Self::Listed(message) => f.write_str(message),
            Self::Rejected(error) => error.fmt(f),
        }
    }
}
