//! `exec`: command-line tools as services.
//!
//! ```text
//! exec=NAME:command=LINE:reduce=REDUCE:partitions=IDS/TOTAL[:KEY=VALUE]…
//!
//! exec=errors:command=grep -c -- {query} part-{partition}:empty=1:reduce=sum-lines:partitions=0-3/12
//! exec=words:command=wc -w all.txt:dir=/srv/{partition}:reduce=sum-lines:partitions=0/4
//! exec=top:command=./score {query}:reduce=top-k:k=10:partitions=0/1
//! exec=merged:command=./runs:reduce-command=sort -m {a} {b}:partitions=0/1
//! exec=own:command=./runs:reduce-module=fold.wasm:partitions=0/1
//! ```
//!
//! A command may contain colons: only a colon before one of the keys ends it.

use super::kind::Offer;
use super::words::{Words, is_service_name};
use super::{Opened, chain};
use std::sync::Arc;
use treefold::{CallError, PartitionSet, Service};
use treefold_exec::template::Template;
use treefold_exec::{AGGREGATION, Exec, Limits, Order, Ready, Reduce, Spec, SpecError};

/// Bounds of `output`, in bytes. A partial must fit into a message.
const OUTPUT_BYTES: std::ops::RangeInclusive<u64> = 1..=32 << 20;
/// Bounds of `memory`, in bytes: a program needs some to start.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=u64::MAX;

pub(super) struct Kind;

impl super::kind::Kind for Kind {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn keys(&self) -> &'static [&'static str] {
        &[
            "command",
            "reduce",
            "reduce-command",
            "reduce-module",
            "dir",
            "k",
            "order",
            "empty",
            "output",
            "memory",
        ]
    }

    fn has_free_text(&self) -> bool {
        true
    }

    fn form(&self) -> &'static str {
        "exec with a name, a command, a reduce and partitions, as in \
         exec=NAME:command=LINE:reduce=REDUCE:partitions=0-3/12"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        Ok(Arc::new(tool(words)?))
    }
}

/// A command-line tool under a name.
#[derive(Debug)]
struct Tool {
    name: String,
    spec: Spec,
    /// The path of the module that folds.
    module: Option<String>,
}

impl Offer for Tool {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String> {
        let exec = Exec::open(self.spec.clone(), partitions.iter(), total);
        let exec = exec.map_err(|error| format!("--serve exec={}: {}", self.name, chain(&error)))?;
        let service = Service::new(self.name.as_str()).total(total).async_aggregation(AGGREGATION, exec);
        let service = match &self.module {
            Some(path) => service.reduce_module(
                module(path).map_err(|problem| format!("--serve exec={}: {problem}", self.name))?,
            ),
            None => service,
        };
        let service = partitions.iter().fold(service, |service, partition| service.partition(partition, ()));
        Ok(service.into())
    }
}

fn tool(words: &Words<'_>) -> Result<Tool, CallError> {
    let name = words.subject().ok().filter(|name| is_service_name(name)).ok_or_else(|| {
        words.refuse("a name of letters, digits and -_. before the keys, as in exec=errors:command=…")
    })?;
    words.partitions()?;
    let command =
        words.of("command").ok_or_else(|| words.refuse("a command, as in command=wc -l part-{partition}"))?;
    let command = Template::local(command).map_err(|error| line("command", command, &error))?;
    let spec = Spec {
        command,
        reduce: reduce(words)?,
        directory: words.of("dir").map(str::to_owned),
        limits: limits(words)?,
        empty: words.of("empty").map_or(Ok(Vec::new()), exit_codes)?,
    };
    Ok(Tool { name: name.to_owned(), spec, module: words.of("reduce-module").map(str::to_owned) })
}

fn module(path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("reduce-module {path}: {error}"))
}

fn line(key: &str, given: &str, error: &SpecError) -> CallError {
    CallError::bad_field(key, given, format_args!("a command line as docs/exec.md describes it: {error}"))
}

/// Parses the reduce: a ready one with its settings, or a command.
fn reduce(words: &Words<'_>) -> Result<Reduce, CallError> {
    let k = words.number("k", "a number of lines")?;
    let of_name = |name: &str| {
        let allowed = format!("one of {}", Order::NAMES.join(", "));
        Order::named(name).ok_or_else(|| CallError::bad_field("order", name, allowed))
    };
    let order = words.of("order").map(of_name).transpose()?;
    match (words.of("reduce"), words.of("reduce-command"), words.of("reduce-module")) {
        (Some(name), None, None) => {
            let ready = Ready::named(name, k, order);
            Ok(Reduce::Ready(ready.map_err(|allowed| CallError::bad_field("reduce", name, allowed))?))
        }
        (None, ..) if k.is_some() || order.is_some() => {
            Err(words.refuse("k and order for ready reduces only"))
        }
        (None, Some(command), None) => {
            let template =
                Template::reduce(command).map_err(|error| line("reduce-command", command, &error))?;
            Ok(Reduce::Command(template))
        }
        (None, None, Some(_)) => Ok(Reduce::Module),
        _ => Err(words.refuse("one of reduce=NAME, reduce-command=LINE and reduce-module=FILE")),
    }
}

fn limits(words: &Words<'_>) -> Result<Limits, CallError> {
    let mut limits = Limits::default();
    if let Some(bytes) = words.bytes("output", OUTPUT_BYTES, "bytes from 1 to 32M, as in output=64K")? {
        limits.output_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    if words.of("memory") == Some("none") {
        limits.memory_bytes_max = None;
    } else if let Some(bytes) =
        words.bytes("memory", MEMORY_BYTES, "bytes from 1M on, as in memory=512M, or none")?
    {
        limits.memory_bytes_max = Some(bytes);
    }
    Ok(limits)
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
        super::tool(&Words::split(text, &Kind).unwrap()).unwrap()
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
            ("exec=a:command=cat:partitions=0/1", "one of reduce=NAME"),
            ("exec=a:command=cat:reduce=count:reduce-command=cat:partitions=0/1", "one of reduce=NAME"),
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
            let refused = text.parse::<super::super::Serve>().unwrap_err().to_string();
            assert!(refused.contains("allowed: ") && refused.contains(reason), "{text}: {refused}");
        }
        let missing = tool("exec=a:command=no-such-tool:reduce=count:partitions=0/1");
        let refused = missing.open(&PartitionSet::from_iter([0]), 1).err().unwrap();
        assert_eq!(refused, r#"--serve exec=a: no program "no-such-tool" was found in PATH"#);
        let missing = tool("exec=a:command=cat:dir=/no/such/{partition}:reduce=count:partitions=3/4");
        let refused = missing.open(&PartitionSet::from_iter([3]), 4).err().unwrap();
        assert_eq!(refused, "--serve exec=a: /no/such/3: not a directory");
    }
}
