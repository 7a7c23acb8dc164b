//! `treefold call`: one call from the command line.

use super::traced::TracingArgs;
use super::{connect, failure_of};
use crate::args::At;
use crate::exit::{Failure, Verdict};
use crate::output::json::{Answer, SliceAnswer, SlicesAnswer};
use crate::output::style::Style;
use crate::output::value::{to_json, to_message_pack};
use crate::output::{Format, explain, print, print_json, short};
use crate::parse;
use bytes::Bytes;
use clap::Args;
use serde_json::Value;
use std::io::Read;
use std::time::Duration;
use treefold::operators::text::json;
use treefold::{EachSlice, Error, Missing, PartitionSet, Raw, ReplicaPolicy, Reply, Shape, Status, Waiting};

/// Call an aggregation over the partitions of a service
///
/// The node at ADDR (the front) forms a tree over the nodes that host the service, sends the call down that
/// tree, and returns the result that was folded on the way up. Parameters are given as JSON and travel as
/// MessagePack; the value travels back in the same way. Values without a JSON form are shown as base64
/// (bytes) or null (NaN).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Call {
    /// The aggregation to call
    #[arg(value_name = "SERVICE/AGGREGATION")]
    kind: String,

    #[command(flatten)]
    at: At,

    /// Parameters: JSON, @FILE to read them from a file, or - to read standard input [default: none]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    params: Option<String>,

    /// Parameters of some partitions, instead of --params: partitions, =, and JSON or @FILE, as in '2={"ids": [17]}'; may be
    /// repeated
    #[arg(long, value_name = "IDS=JSON")]
    params_for: Vec<String>,

    /// Parameters of the reduce, which otherwise gets --params: JSON or @FILE
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    reduce_params: Option<String>,

    /// Deadline of the answer, with its unit: 200ms, 1.5s, 2m
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse::deadline, allow_hyphen_values = true)]
    deadline: Duration,

    /// Minimum coverage: the least share of partitions that makes an answer, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = parse::min_coverage, allow_hyphen_values = true)]
    min_coverage: f64,

    /// Shape of the tree: auto (over relays if there are any, else adaptive), adaptive, on-path:T,
    /// earliest-ready, topology, binomial, kary:K, chain, flat, base
    #[arg(long, value_name = "SHAPE", default_value = "auto", value_parser = parse::shape)]
    shape: Shape,

    /// Policy by which replicas are picked: random, round_robin, announced, polled:D, peak_ewma, prequal,
    /// prequal_inline [default: the front's own policy]
    #[arg(long, value_name = "POLICY", value_parser = parse::policy)]
    policy: Option<ReplicaPolicy>,

    /// Rule by which nodes wait for their children: staged (each level answers before the one above), slope
    /// or slope:FMIN,FMAX (above the minimum coverage, the wait gets shorter as more partials come in),
    /// learned (as long as the children's earlier times justify)
    #[arg(long, value_name = "RULE", default_value = "staged", value_parser = parse::waiting)]
    waiting: Waiting,

    /// Ask further replicas as soon as a node takes longer than 95 % of such nodes do, not only twice as long
    #[arg(long)]
    hedge: bool,

    /// Number of slices into which every partial is cut by key, each with its own tree; for large partials of
    /// aggregations that can be cut
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse::slices, allow_hyphen_values = true)]
    slices: u32,

    /// Print the slices one after another, each as soon as it is there, for results larger than memory; nothing joins them,
    /// and there may be up to 1048576
    #[arg(long, requires = "slices", conflicts_with_all = ["explain", "trace_parent", "otlp", "trace_file"])]
    each: bool,

    /// Slices that may be in flight at a time with --each
    #[arg(long, value_name = "N", default_value = "4", requires = "each")]
    window: u32,

    /// Partitions to ask, as in 0-3,7 [default: all of the service]
    #[arg(long, value_name = "IDS", value_parser = parse::partitions)]
    partitions: Option<PartitionSet>,

    /// Form the tree in this process and talk to its root, without a front in between
    #[arg(long)]
    direct: bool,

    /// Draw the tree with the times of every node
    #[arg(long)]
    explain: bool,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,

    #[command(flatten)]
    tracing: TracingArgs,
}

const EXAMPLES: &str = "\
Exit codes:
  0 full, 3 partial but at or above the minimum coverage, 4 below it, 5 no node reached or no provider in sight, 2 rejected

Examples:
  treefold call search/topk --at 127.0.0.1:7700 --params '{\"query\": \"binary heap\", \"k\": 5}'
  treefold call search/topk --at 127.0.0.1:7700 --params @query.json --deadline 200ms --explain
  treefold call docs/fetch --at 127.0.0.1:7700 --partitions 0,2 --params-for '0={\"ids\": [3]}' --params-for '2={\"ids\": [17, 4]}'
  treefold call words/count --at 127.0.0.1:7700 --slices 4096 --each --deadline 10m > counts.txt
  treefold call micro/sum --at 127.0.0.1:7700 --shape kary:8 -o json | jq .coverage";

impl Call {
    pub async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let params = self.params.as_deref().map_or(Ok(Bytes::new()), read_params)?;
        let mut own = Vec::new();
        for given in &self.params_for {
            own.extend(read_params_for(given)?);
        }
        let reduce = self.reduce_params.as_deref().map(read_reduce_params).transpose()?;
        let client = connect(&self.at, self.direct, &self.cluster).await?;
        let mut call = client
            .call_raw(&self.kind, params)
            .deadline(self.deadline)
            .min_coverage(self.min_coverage)
            .shape(self.shape)
            .waiting(self.waiting)
            .hedge(self.hedge)
            .slices(self.slices);
        for (partition, params) in own {
            call = call.params_for(partition, &params);
        }
        if let Some(reduce) = reduce {
            call = call.reduce_params(&reduce);
        }
        if let Some(policy) = self.policy {
            call = call.policy(policy);
        }
        if let Some(partitions) = self.partitions {
            call = call.partitions(partitions);
        }
        if self.each {
            return each_slice(call.each_slice().window(self.window), format).await;
        }
        let mut tracing = self.tracing.start(&client)?;
        let outcome = tracing.make(&self.kind, self.deadline, call, self.explain).await;
        if let Ok(reply) = &outcome {
            match format {
                Format::Json => print_json(&Answer::of_raw(reply)),
                Format::Text => print(render(reply, Style::of_stdout())),
            }
        }
        tracing.finish().await;
        outcome.map(|reply| Verdict::of(&reply.status))
    }
}

/// Prints the slices of a call as they come, and then its outcome: as the last line of JSON, or to standard error.
async fn each_slice(mut each: EachSlice<Raw>, format: Format) -> Result<Verdict, Failure> {
    loop {
        let slice = each.taken();
        match each.next().await {
            Ok(Some(value)) => match format {
                Format::Json => print_json(&SliceAnswer::of(slice, &value)),
                Format::Text => match to_json(&value.0) {
                    Value::String(text) if text.is_empty() => {}
                    value => print(shown(&value)),
                },
            },
            // Below the minimum coverage there are no further slices.
            Ok(None) | Err(Error::NoValue { .. }) => break,
            Err(error) => return Err(failure_of(error)),
        }
    }
    let reply = each.so_far();
    match format {
        Format::Json => print_json(&SlicesAnswer::of(&each)),
        Format::Text => {
            let style = Style::of_stderr();
            let (taken, slices) = (each.taken(), each.asked());
            crate::tell!("{taken} of {slices} slices, {}", verdict_line(reply, style));
            for missing in &reply.missing {
                crate::tell!("{}", style.warning(missing_line(missing)));
            }
        }
    }
    Ok(Verdict::of(&reply.status))
}

/// Reads the parameters given on the command line and encodes them.
pub fn read_params(given: &str) -> Result<Bytes, Failure> {
    read_json("--params", given)
}

/// Reads the parameters of the reduce given on the command line and encodes them.
fn read_reduce_params(given: &str) -> Result<Raw, Failure> {
    if given == "-" {
        return Err(Failure::usage("--reduce-params -: standard input is for --params; give JSON or @FILE"));
    }
    Ok(Raw(read_json("--reduce-params", given)?))
}

/// Reads the parameters of some partitions, given as in `0-3,7=JSON`.
fn read_params_for(given: &str) -> Result<Vec<(u32, Raw)>, Failure> {
    let refuse = |problem: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "--params-for {given}: {problem}; give partitions, =, and JSON or @FILE, as in 0-3,7=[1]"
        ))
    };
    let (partitions, json) = given.split_once('=').ok_or_else(|| refuse(&"there is no ="))?;
    let partitions = parse::partitions(partitions).map_err(|error| refuse(&error))?;
    if json == "-" {
        return Err(refuse(&"standard input is for --params"));
    }
    let params = Raw(read_json("--params-for", json)?);
    Ok(partitions.iter().map(|partition| (partition, params.clone())).collect())
}

/// Reads an option's JSON (inline, from a file, or from standard input) and encodes it.
pub fn read_json(option: &str, given: &str) -> Result<Bytes, Failure> {
    let refuse = |source: &str, error: &dyn std::fmt::Display| {
        Failure::usage(format!("{option} {source}: {error}; give JSON, @FILE, or - for standard input"))
    };
    let unreadable =
        |error: std::io::Error| Failure::failed(format!("{option} {given}: can't read it: {error}"));
    let (source, text) = if given == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
        ("-", text)
    } else if let Some(path) = given.strip_prefix('@') {
        (given, std::fs::read_to_string(path).map_err(unreadable)?)
    } else {
        (given, given.to_owned())
    };
    let value: serde_json::Value = json::from_str(&text).map_err(|error| refuse(source, &error))?;
    to_message_pack(&value).map_err(|error| refuse(source, &error))
}

fn render(reply: &Reply<Raw>, style: Style) -> String {
    let mut parts = Vec::new();
    if let Some(raw) = &reply.value {
        parts.push(shown(&to_json(&raw.0)));
    }
    if let Some(report) = reply.explain() {
        parts.push(explain::draw(report, style));
    }
    parts.push(verdict_line(reply, style));
    parts.extend(reply.missing.iter().map(|missing| style.warning(missing_line(missing))));
    parts.join("\n")
}

/// Formats a value for people: lines of text as they are, other values as JSON.
///
/// A map of such texts is shown like the files of `head`, each text below the name of its key.
fn shown(value: &Value) -> String {
    let lines = |value: &Value| value.as_str().filter(|text| text.contains('\n')).map(str::to_owned);
    if let Some(text) = lines(value) {
        return text.strip_suffix('\n').unwrap_or(&text).to_owned();
    }
    if let Value::Object(fields) = value
        && fields.values().all(Value::is_string)
        && fields.values().any(|text| lines(text).is_some())
    {
        let mut texts: Vec<(&String, &str)> =
            fields.iter().map(|(key, text)| (key, text.as_str().unwrap_or_default())).collect();
        // Keys that are numbers are ordered as numbers.
        texts.sort_by_key(|(key, _)| (key.parse::<u64>().unwrap_or(u64::MAX), *key));
        let part = |(key, text): (&String, &str)| {
            format!("==> {key} <==\n{}", text.strip_suffix('\n').unwrap_or(text))
        };
        return texts.into_iter().map(part).collect::<Vec<_>>().join("\n");
    }
    serde_json::to_string_pretty(value).expect("invariant: JSON values can be written")
}

/// Formats a call's result on one line: verdict, coverage, time, tree.
pub fn verdict_line<T>(reply: &Reply<T>, style: Style) -> String {
    let verdict = match reply.status {
        Status::Full => style.good("full"),
        Status::Partial => style.warning("partial"),
        Status::Insufficient | Status::Rejected(_) => style.bad(reply.status.name()),
    };
    let tree = reply.explain().map_or_else(String::new, |report| {
        format!(", {} nodes in a tree of depth {}", explain::nodes(report), explain::depth(report))
    });
    let guess = if reply.total_is_guess { ", and that total is a guess" } else { "" };
    format!(
        "{verdict}: coverage {:.3} ({} of {} partitions{guess}) in {}{tree}",
        reply.coverage(),
        reply.contributed.len(),
        reply.asked.len(),
        short(reply.elapsed)
    )
}

/// Formats a loss on one line: partitions, node, reason.
pub fn missing_line(missing: &Missing) -> String {
    let plural = if missing.partitions.len() == 1 { "" } else { "s" };
    let place = missing.node.map_or_else(String::new, |node| format!(" at {node}"));
    format!("missing partition{plural} {}{place}: {}", missing.partitions, missing.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::{Body, Reason};

    #[test]
    fn invalid_parameters_are_refused_with_the_accepted_forms() {
        let bytes = read_params(r#"{"k": 3}"#).unwrap();
        assert_eq!(serde_json::Value::decode(&bytes).unwrap(), serde_json::json!({"k": 3}));
        let refused = read_params("{k: 3}").unwrap_err().to_string();
        assert!(refused.starts_with("--params {k: 3}: key must be a string"), "{refused}");
        assert!(read_params("@/nowhere/at/all").unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn parameters_of_partitions_are_read_with_their_partitions() {
        let own = read_params_for(r#"0-1,7={"ids": [3]}"#).unwrap();
        assert_eq!(own.iter().map(|(partition, _)| *partition).collect::<Vec<_>>(), [0, 1, 7]);
        assert_eq!(serde_json::Value::decode(&own[2].1.0).unwrap(), serde_json::json!({"ids": [3]}));
        for (given, says) in
            [("7", "there is no ="), ("x=1", "--params-for x=1: "), ("7=-", "standard input"), ("7={", "EOF")]
        {
            let refused = read_params_for(given).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn parameters_of_the_reduce_are_json() {
        let Raw(bytes) = read_reduce_params(r#"{"k": 3}"#).unwrap();
        assert_eq!(serde_json::Value::decode(&bytes).unwrap(), serde_json::json!({"k": 3}));
        for (given, says) in [("-", "standard input is for --params"), ("{", "--reduce-params {: ")] {
            let refused = read_reduce_params(given).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn lines_of_text_are_shown_as_they_are() {
        let value = |json: &str| shown(&serde_json::from_str(json).unwrap());
        assert_eq!(value(r#""a\nb\n""#), "a\nb");
        assert_eq!(value(r#""one word""#), r#""one word""#);
        assert_eq!(
            value(r#"{"10": "c\n", "2": "a\nb\n", "3": ""}"#),
            "==> 2 <==\na\nb\n==> 3 <==\n\n==> 10 <==\nc"
        );
        assert_eq!(value(r#"{"a": "x"}"#), "{\n  \"a\": \"x\"\n}");
    }

    #[test]
    fn missing_line_names_partitions_node_and_reason() {
        let node = treefold::NodeId::new(([127, 0, 0, 1], 7).into(), 1);
        let partitions = [1, 2, 5].into_iter().collect();
        let lost = Missing { partitions, node: Some(node), reason: Reason::Late };
        assert_eq!(missing_line(&lost), "missing partitions 1-2,5 at 127.0.0.1:7: late");
    }
}
