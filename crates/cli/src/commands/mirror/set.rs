//! `treefold mirror set`: changes the rules of a running origin, and shows them.

use super::functions::{self, FunctionFile, function_file};
use super::rules::{Rules, warn_of_state};
use crate::args::At;
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use crate::parse;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::time::Duration;
use treefold::{CallError, Client, Error};
use treefold_feed::operating::{
    RulesShown, SetAnswer, SetReason, SetRefusal, SetRequest, origin_service_name,
};
use treefold_mirror::Name;
use treefold_mirror::change::{ModeChoice, MonitoredValue, Parameter, Version};
use treefold_mirror::rules::Threshold;

/// Change the rules of a running feed
///
/// All mirrors change at the same event: the answer names the new version of the rules, and the position of the first
/// event that they choose. A change is made as a whole or refused as a whole. It lasts until the origin ends: one that is
/// started again has the rules of its own command line. Without a change, or with --show, the command prints the
/// present rules.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Set {
    /// Feed: the name of its mirrors' service
    #[arg(value_name = "FEED")]
    feed: String,

    #[command(flatten)]
    at: At,

    /// File of rules in place of the present rules; - for standard input
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,

    /// New or replaced function that rules name, as a WebAssembly module; may be repeated
    #[arg(long = "function", value_name = "NAME=FILE", value_parser = function_file)]
    functions: Vec<FunctionFile>,

    /// Make a checkpoint after so many events, in normal mode
    #[arg(long, value_name = "N")]
    checkpoint_every: Option<u64>,

    /// Make a checkpoint after so many events, in loaded mode
    #[arg(long, value_name = "N")]
    checkpoint_every_loaded: Option<u64>,

    /// Send one of N events of a key and this type; 1 sends all
    #[arg(long, value_name = "TYPE=N", value_parser = overwrite)]
    overwrite: Vec<Parameter>,

    /// Send N events as one batch; 1 sends each as soon as possible
    #[arg(long, value_name = "N")]
    coalesce: Option<u32>,

    /// Thresholds of a monitored value (ready_queue, backup_queue, pending_requests), or off: the mode is loaded from
    /// PRIMARY on, and normal again below PRIMARY - SECONDARY
    #[arg(long, value_name = "VALUE=PRIMARY:SECONDARY", value_parser = adapt)]
    adapt: Vec<Parameter>,

    /// Mode of the rules: fixed, or chosen by the thresholds
    #[arg(long, value_enum)]
    mode: Option<ModeName>,

    /// Refuse the change if the rules were set again after this version; EPOCH.N also refuses another origin
    #[arg(long, value_name = "N", value_parser = version)]
    if_version: Option<Version>,

    /// Print the rules, after the change if there is one
    #[arg(long)]
    show: bool,

    /// Time that the origin has to answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse::duration)]
    timeout: Duration,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

/// Choices of the mode by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// By the thresholds of the rules
    Auto,
    /// Always normal
    Normal,
    /// Always loaded
    Loaded,
}

const EXAMPLES: &str = "\
Exit codes: 0 if the rules are changed or shown, 1 if the rules are invalid or the origin refuses the change, 2 if a
value is invalid, 5 if no node answers, or the feed has no running origin.

Examples:
  treefold mirror set flights --at 127.0.0.1:7700 > rules.toml
  treefold mirror set flights --rules rules.toml --if-version 1 --at 127.0.0.1:7700
  treefold mirror set flights --overwrite position=40 --checkpoint-every 100 --at 127.0.0.1:7700
  treefold mirror set flights --rules rules.toml --function even=even.wasm --at 127.0.0.1:7700
  treefold mirror set flights --adapt ready_queue=1000:400 --mode auto --at 127.0.0.1:7700
  treefold mirror set flights --mode loaded --at 127.0.0.1:7700 -o json | jq .rules_version";

/// The result, as printed in JSON.
#[derive(Serialize)]
struct Report {
    feed: String,
    epoch: u32,
    rules_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<SetRefusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<String>,
}

impl Set {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let request = self.request()?;
        let shows = self.show || request.is_none();
        let client = connect(&self.at, false, &self.cluster).await?;
        let answer: Option<SetAnswer> = match &request {
            Some(request) => Some(ask(&client, &self.feed, "set", request, self.timeout).await?),
            None => None,
        };
        let refused = answer.as_ref().and_then(|answer| answer.refused.clone());
        let shown: Option<RulesShown> = match shows && refused.is_none() {
            true => Some(ask(&client, &self.feed, "rules", &(), self.timeout).await?),
            false => None,
        };
        let (epoch, rules_version, position) = match (&answer, &shown) {
            (Some(answer), _) => (answer.epoch, answer.rules_version, answer.position),
            (None, Some(shown)) => (shown.epoch, shown.rules_version, None),
            (None, None) => return Err(Failure::failed("the origin did not answer")),
        };
        let rules = shown.map(|shown| shown.rules);
        match format {
            Format::Json => {
                let (feed, refused) = (self.feed, refused.clone());
                print_json(&Report { feed, epoch, rules_version, position, refused, rules });
            }
            Format::Text => {
                if answer.is_some() && refused.is_none() {
                    let held = match position {
                        Some(position) => format!("holds from {epoch}.{position} on"),
                        None => "holds as soon as the events before it are sent".to_owned(),
                    };
                    // The rules themselves go to standard output alone, so that they can be written to a file.
                    let line = format!("rules version {epoch}.{rules_version} {held}");
                    if rules.is_some() { crate::tell!("{line}") } else { print(line) }
                }
                if let Some(rules) = &rules {
                    print(rules.trim_end());
                }
            }
        }
        match refused {
            None => Ok(Verdict::Full),
            Some(refused) => Err(told(refused, (epoch, rules_version), format)),
        }
    }

    /// The change; `None` if there is none.
    fn request(&self) -> Result<Option<SetRequest>, Failure> {
        let rules = match &self.rules {
            None => None,
            Some(path) => {
                let rules = Rules::read(path)?;
                let text = rules.text.clone();
                warn_of_state(&rules.valid()?);
                Some(text)
            }
        };
        let numbers = [
            self.checkpoint_every.map(Parameter::CheckpointEvery),
            self.checkpoint_every_loaded.map(Parameter::CheckpointEveryLoaded),
            self.coalesce.map(Parameter::Coalesce),
        ];
        let texts = self.overwrite.iter().chain(&self.adapt).cloned();
        let parameters: Vec<Parameter> = numbers.into_iter().flatten().chain(texts).collect();
        let mode = self.mode.map(|mode| match mode {
            ModeName::Auto => ModeChoice::Auto,
            ModeName::Normal => ModeChoice::Normal,
            ModeName::Loaded => ModeChoice::Loaded,
        });
        let functions = functions::read(&self.functions)?;
        if rules.is_none() && parameters.is_empty() && functions.is_empty() && mode.is_none() {
            if self.if_version.is_some() {
                return Err(Failure::usage("--if-version needs a change"));
            }
            return Ok(None);
        }
        Ok(Some(SetRequest {
            if_version: self.if_version,
            rules,
            parameters,
            functions,
            mode,
            ..SetRequest::numbered()
        }))
    }
}

/// Asks the running origin of a feed.
pub(crate) async fn ask<T: treefold::Body>(
    client: &Client,
    feed: &str,
    aggregation: &str,
    params: &impl treefold::Body,
    within: Duration,
) -> Result<T, Failure> {
    let service = origin_service_name(feed);
    let nobody = || {
        Failure::unreachable(format!(
            "the feed {feed} has no running origin; `treefold mirror feed` starts one"
        ))
    };
    let called = client.call::<T>(&format!("{service}/{aggregation}"), params).deadline(within);
    let reply = match called.min_coverage(0.0).await {
        Err(Error::Rejected(CallError::UnknownService { .. })) => return Err(nobody()),
        other => other.map_err(failure_of)?,
    };
    reply.value.ok_or_else(|| match reply.missing.first() {
        Some(missing) => {
            Failure::unreachable(format!("the origin of {feed} does not answer: {}", missing.reason))
        }
        None => nobody(),
    })
}

/// The failure of a refused change.
fn told(refused: SetRefusal, (epoch, version): (u32, u32), format: Format) -> Failure {
    let mut text = refused.message;
    if refused.reason == SetReason::Version {
        text = format!("{text}; `--if-version {epoch}.{version}` changes these rules");
    }
    match format {
        // The object has the reason.
        Format::Json => Failure::Told(text),
        Format::Text => Failure::failed(text),
    }
}

fn named(text: &str, field: &'static str, expected: &'static str) -> Result<(String, String), CallError> {
    let wrong = || CallError::bad_field(field, text, expected);
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), value.to_owned()))
}

fn overwrite(text: &str) -> Result<Parameter, CallError> {
    const EXPECTED: &str = "TYPE=N, as in position=20";
    let wrong = || CallError::bad_field("overwrite", text, EXPECTED);
    let (kind, run) = named(text, "overwrite", EXPECTED)?;
    Ok(Parameter::Overwrite {
        kind: Name::new(kind).map_err(|_| wrong())?,
        run: run.parse().map_err(|_| wrong())?,
    })
}

fn adapt(text: &str) -> Result<Parameter, CallError> {
    const EXPECTED: &str = "ready_queue, backup_queue or pending_requests, and =PRIMARY:SECONDARY or =off, as in ready_queue=1000:400";
    let wrong = || CallError::bad_field("adapt", text, EXPECTED);
    let (value, thresholds) = named(text, "adapt", EXPECTED)?;
    let value = match value.as_str() {
        "ready_queue" => MonitoredValue::ReadyQueue,
        "backup_queue" => MonitoredValue::BackupQueue,
        "pending_requests" => MonitoredValue::PendingRequests,
        _ => return Err(wrong()),
    };
    let thresholds = match thresholds.split_once(':') {
        None if thresholds == "off" => None,
        Some((primary, secondary)) => Some(Threshold {
            primary: primary.parse().map_err(|_| wrong())?,
            secondary: secondary.parse().map_err(|_| wrong())?,
        }),
        None => return Err(wrong()),
    };
    Ok(Parameter::Adapt { value, thresholds })
}

fn version(text: &str) -> Result<Version, CallError> {
    let wrong = || CallError::bad_field("if-version", text, "N or EPOCH.N, as in 2 or 1.2");
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    match text.split_once('.') {
        None => Ok(Version { epoch: None, version: number(text)? }),
        Some((epoch, version)) => Ok(Version { epoch: Some(number(epoch)?), version: number(version)? }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_others_refused() {
        let kind = Name::new("position").unwrap();
        assert_eq!(overwrite("position=20").unwrap(), Parameter::Overwrite { kind, run: 20 });
        let thresholds = Some(Threshold { primary: 9, secondary: 4 });
        let ready = |thresholds| Parameter::Adapt { value: MonitoredValue::ReadyQueue, thresholds };
        assert_eq!(adapt("ready_queue=9:4").unwrap(), ready(thresholds));
        assert_eq!(adapt("ready_queue=off").unwrap(), ready(None));
        assert_eq!(version("1.2").unwrap(), Version { epoch: Some(1), version: 2 });
        for wrong in ["", "position", "position=", "position=-1", "two words=3", "=3"] {
            assert!(overwrite(wrong).is_err(), "{wrong}");
        }
        for wrong in ["ready_queue", "ready_queue=3", "ready_queue=3:", "other=3:2"] {
            assert!(adapt(wrong).is_err(), "{wrong}");
        }
        assert!([".1", "1.", "a", "1.2.3"].iter().all(|wrong| version(wrong).is_err()));
    }
}
