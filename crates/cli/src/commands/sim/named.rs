//! An experiment's name as an argument.
//!
//! Unknown names are refused with the list of names, and shells complete them.

use clap::builder::{PossibleValue, TypedValueParser};
use std::ffi::OsStr;
use std::fmt;
use treefold::CallError;
use treefold_sim::experiment::{ALL, Experiment};

/// One of the experiments.
#[derive(Clone, Copy)]
pub(crate) struct Named(pub(crate) &'static Experiment);

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Named {
    /// Every experiment, in the order of the papers.
    pub(crate) fn all() -> Vec<Self> {
        ALL.iter().map(Self).collect()
    }

    fn from_name(name: &str) -> Result<Self, CallError> {
        let known = ALL.iter().find(|experiment| experiment.name == name);
        known.map(Self).ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|experiment| experiment.name).collect();
            CallError::bad_field("experiment", name, names.join(", "))
        })
    }
}

/// Parses a name, and lists the names for the shell.
#[derive(Clone, Debug)]
pub(crate) struct NameReader;

impl TypedValueParser for NameReader {
    type Value = Named;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        name: &OsStr,
    ) -> Result<Named, clap::Error> {
        let read: fn(&str) -> Result<Named, CallError> = Named::from_name;
        read.parse_ref(command, argument, name)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            ALL.iter().map(|experiment| PossibleValue::new(experiment.name).help(experiment.about)),
        ))
    }
}
