//! `exec`: command-line tools as services.
//!
//! ```text
//! exec=NAME:command=LINE:reduce=REDUCE:partitions=IDS/TOTAL[:KEY=VALUE]…
//!
//! exec=errors:command=grep -c -- {query} part-{partition}:empty=1:reduce=sum-lines:partitions=0-3/12
//! exec=words:command=wc -w all.txt:dir=/srv/{partition}:reduce=sum-lines:partitions=0/4
//! exec=top:command=./score {query}:reduce=top-k:k=10:partitions=0/1
//! exec=merged:command=./runs:reduce-command=sort -m {a} {b}:partitions=0/1
//! ```
//!
//! A command may contain colons: only a colon before one of the keys ends it.

use super::{Serve, What, chain, each_once, is_service_name, split_options, total_of};
use crate::parse::{self, partitions_of_total};
use treefold::{CallError, PartitionSet, Service};
use treefold_exec::template::Template;
use treefold_exec::{AGGREGATION, Exec, Limits, Order, Ready, Reduce, Spec, SpecError};

/// Keys that may follow a colon.
const KEYS: [&str; 10] =
    ["command", "reduce", "reduce-command", "partitions", "dir", "k", "order", "empty", "output", "memory"];

/// Bounds of `output`, in bytes. A partial must fit into a message.
const OUTPUT_BYTES: std::ops::RangeInclusive<u64> = 1..=32 << 20;
/// Least `memory`, in bytes: a program needs some to start.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// A command-line tool under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: String,
    spec: Spec,
}

impl Tool {
    /// Makes the service with its partitions.
    pub(super) fn service(&self, partitions: &PartitionSet, total: u32) -> Result<Service, String> {
        let exec = Exec::open(self.spec.clone(), partitions.iter(), total);
        let exec = exec.map_err(|error| format!("--serve exec={}: {}", self.name, chain(&error)))?;
        let service = Service::new(self.name.as_str()).total(total).async_aggregation(AGGREGATION, exec);
        Ok(partitions.iter().fold(service, |service, partition| service.partition(partition, ())))
    }
}

/// Values by key, as they were given.
#[derive(Default)]
struct Given<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Given<'a> {
    fn of(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}

/// Parses the argument `text`, which is `exec=` and `tool`.
pub(super) fn parse(text: &str, tool: &str) -> Result<Serve, CallError> {
    let refuse = |limit: &str| CallError::bad_field("serve", text, limit);
    let (name, options) = split_options(tool, &KEYS);
    let given = Given(options);
    if !is_service_name(name) {
        return Err(refuse("a name of letters, digits and -_. before the keys, as in exec=errors:command=…"));
    }
    each_once(&given.0).map_err(|limit| refuse(&limit))?;
    let partitions = given.of("partitions").ok_or_else(|| refuse("partitions, as in partitions=0-3/12"))?;
    let (partitions, total) = partitions_of_total(partitions)?;
    let command =
        given.of("command").ok_or_else(|| refuse("a command, as in command=wc -l part-{partition}"))?;
    let command = Template::local(command).map_err(|error| line("command", command, &error))?;
    let spec = Spec {
        command,
        reduce: reduce(&given, text)?,
        directory: given.of("dir").map(str::to_owned),
        limits: limits(&given)?,
        empty: given.of("empty").map_or(Ok(Vec::new()), exit_codes)?,
    };
    let what = What::Exec(Tool { name: name.to_owned(), spec });
    Ok(Serve {
        what,
        declared: total.is_some(),
        total: total_of(&partitions, total),
        partitions,
        placing: None,
    })
}

fn line(key: &str, given: &str, error: &SpecError) -> CallError {
    CallError::bad_field(key, given, format_args!("a command line as docs/exec.md describes it: {error}"))
}

/// Parses the reduce: a ready one with its settings, or a command.
fn reduce(given: &Given<'_>, text: &str) -> Result<Reduce, CallError> {
    let refuse = |limit: &str| CallError::bad_field("serve", text, limit);
    let k = given.of("k").map(|k| parse::named("k", k, "a number of lines")).transpose()?;
    let of_name = |name: &str| {
        let allowed = format!("one of {}", Order::NAMES.join(", "));
        Order::named(name).ok_or_else(|| CallError::bad_field("order", name, allowed))
    };
    let order = given.of("order").map(of_name).transpose()?;
    match (given.of("reduce"), given.of("reduce-command")) {
        (Some(name), None) => {
            let ready = Ready::named(name, k, order);
            Ok(Reduce::Ready(ready.map_err(|allowed| CallError::bad_field("reduce", name, allowed))?))
        }
        (None, Some(_)) if k.is_some() || order.is_some() => {
            Err(refuse("k and order for ready reduces only"))
        }
        (None, Some(command)) => {
            let template =
                Template::reduce(command).map_err(|error| line("reduce-command", command, &error))?;
            Ok(Reduce::Command(template))
        }
        _ => Err(refuse("reduce=NAME or reduce-command=LINE, and not both")),
    }
}

fn limits(given: &Given<'_>) -> Result<Limits, CallError> {
    let mut limits = Limits::default();
    if let Some(text) = given.of("output") {
        let bytes = bytes_of(text).filter(|bytes| OUTPUT_BYTES.contains(bytes));
        let allowed = "bytes from 1 to 32M, as in output=64K";
        let bytes = bytes.ok_or_else(|| CallError::bad_field("output", text, allowed))?;
        limits.output_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    match given.of("memory") {
        Some("none") => limits.memory_bytes_max = None,
        Some(text) => {
            let bytes = bytes_of(text).filter(|&bytes| bytes >= MEMORY_BYTES_MIN);
            let allowed = "bytes from 1M on, as in memory=512M, or none";
            limits.memory_bytes_max =
                Some(bytes.ok_or_else(|| CallError::bad_field("memory", text, allowed))?);
        }
        None => {}
    }
    Ok(limits)
}

/// Parses a number of bytes: `4096`, `64K`, `16M`, `2G`.
pub(super) fn bytes_of(text: &str) -> Option<u64> {
    let unit = [('K', 10), ('M', 20), ('G', 30)];
    let unit = unit.iter().find_map(|&(unit, bits)| text.strip_suffix(unit).map(|digits| (digits, bits)));
    let (digits, bits) = unit.unwrap_or((text, 0));
    digits.parse::<u64>().ok()?.checked_mul(1 << bits)
}

fn exit_codes(text: &str) -> Result<Vec<i32>, CallError> {
    let code = |text: &str| text.trim().parse::<u8>().ok().filter(|&code| code > 0).map(i32::from);
    let codes: Option<Vec<i32>> = text.split(',').map(code).collect();
    codes.ok_or_else(|| CallError::bad_field("empty", text, "exit codes from 1 to 255, as in empty=1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> Tool {
        match text.parse::<Serve>().unwrap().what {
            What::Exec(tool) => tool,
            _ => panic!("{text} is not an exec service"),
        }
    }

    #[test]
    fn commands_may_contain_colons_and_equal_signs() {
        let line = r"curl -s http://127.0.0.1:8080/x=1:y=2 -d a:b";
        let all = tool(&format!(
            "exec=pages:command={line}:dir=/srv/p:{{partition}}:empty=1,22:output=64K:memory=none:reduce=top-k:k=3:partitions=0-1/2"
        ));
        assert_eq!(all.name, "pages");
        let spec = Spec {
            command: Template::local(line).unwrap(),
            reduce: Reduce::Ready(Ready::TopK(3)),
            directory: Some("/srv/p:{partition}".to_owned()),
            limits: Limits { output_bytes_max: 64 << 10, memory_bytes_max: None },
            empty: vec![1, 22],
        };
        assert_eq!(all.spec, spec);
        let merged = tool("exec=m:partitions=0/1:reduce-command=sort -m {a} {b}:command=sort f:memory=512M");
        assert_eq!(merged.spec.reduce, Reduce::Command(Template::reduce("sort -m {a} {b}").unwrap()));
        assert_eq!(merged.spec.limits, Limits { memory_bytes_max: Some(512 << 20), ..Limits::default() });
        assert_eq!(
            tool("exec=s:command=cat:reduce=merge-sorted:order=numeric:partitions=0/1").spec.reduce,
            Reduce::Ready(Ready::MergeSorted(Order::Numeric))
        );
    }

    #[test]
    fn invalid_declarations_are_refused_with_the_allowed_form() {
        for (text, reason) in [
            ("exec=", "a name of letters"),
            ("exec=a/b:command=cat:reduce=count:partitions=0/1", "a name of letters"),
            ("exec=a:command=cat:reduce=count", "partitions=0-3/12"),
            ("exec=a:reduce=count:partitions=0/1", "a command"),
            ("exec=a:command=cat:partitions=0/1", "reduce=NAME or reduce-command=LINE"),
            ("exec=a:command=cat:reduce=count:reduce-command=cat:partitions=0/1", "and not both"),
            ("exec=a:command=cat:command=ls:reduce=count:partitions=0/1", "command is given twice"),
            ("exec=a:command=cat:reduce=sum:partitions=0/1", "sum-lines, sum-counts"),
            ("exec=a:command=cat:reduce=top-k:partitions=0/1", "k=10"),
            ("exec=a:command=cat:reduce=count:k=2:partitions=0/1", "k for top-k only"),
            ("exec=a:command=cat:reduce=unique:order=up:partitions=0/1", "numeric-reverse"),
            ("exec=a:command=sh -c 'x {query}':reduce=count:partitions=0/1", "stands inside other text"),
            ("exec=a:command={query}:reduce=count:partitions=0/1", "callers would choose what runs"),
            ("exec=a:command=cat:reduce-command=sort {a}:partitions=0/1", "both {a} and {b}"),
            ("exec=a:command=cat:reduce=count:output=0:partitions=0/1", "output=64K"),
            ("exec=a:command=cat:reduce=count:memory=1K:partitions=0/1", "memory=512M"),
            ("exec=a:command=cat:reduce=count:empty=0:partitions=0/1", "exit codes from 1 to 255"),
            ("exec=a:command=cat:reduce=count:partitions=1/1", "every id below the total"),
        ] {
            let refused = text.parse::<Serve>().unwrap_err().to_string();
            assert!(refused.contains("allowed: ") && refused.contains(reason), "{text}: {refused}");
        }
        let missing = tool("exec=a:command=no-such-tool:reduce=count:partitions=0/1");
        let refused = missing.service(&PartitionSet::from_iter([0]), 1).unwrap_err();
        assert_eq!(refused, r#"--serve exec=a: no program "no-such-tool" was found in PATH"#);
        let missing = tool("exec=a:command=cat:dir=/no/such/{partition}:reduce=count:partitions=3/4");
        let refused = missing.service(&PartitionSet::from_iter([3]), 4).unwrap_err();
        assert_eq!(refused, "--serve exec=a: /no/such/3: not a directory");
    }
}
