//! `treefold mirror watch`: follows a feed at one of its mirrors.

use crate::args::At;
use crate::commands::front_end::front_end;
use crate::endings::Endings;
use crate::exit::{Failure, Verdict};
use crate::output::lines::Lines;
use crate::output::style::Style;
use crate::output::{Format, safe};
use crate::parse;
use clap::Args;
use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::time::Duration;
use treefold_feed::follow::{ReaderError, write_line};
use treefold_feed::{Reader, Update};
use treefold_mirror::VectorTime;
use treefold_mirror::event::Name;

/// Follow a feed: its present state, and then every change
///
/// The command reads from one mirror of the feed. If that mirror ends, it goes on at another one, without a gap or a
/// repetition, and says so. It runs until Ctrl-C, and then prints the vector time from which a later run resumes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Watch {
    /// Feed: the name of its mirrors' service
    #[arg(value_name = "FEED")]
    feed: String,

    #[command(flatten)]
    at: At,

    /// Key to follow; may be repeated [default: all keys]
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,

    /// Prefix of the keys to follow; may be repeated
    #[arg(long = "prefix", value_name = "PREFIX")]
    prefixes: Vec<String>,

    /// Type of the events to follow; may be repeated. Rows are whole all the same [default: all types]
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,

    /// Vector time to resume from, as a former run has printed it [default: begin with the present state]
    #[arg(long, value_name = "TIME")]
    from: Option<VectorTime>,

    /// Time without any mirror after which the command gives up
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::duration)]
    timeout: Duration,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Each line of -o json is an object with one member: begins, row, complete, event, reached (nothing for this reader up to
this time), lagging, moved, or ended (with the time to resume from).

Exit codes: 0 after Ctrl-C, 4 if no mirror serves this reader for --timeout, 5 if no node answers.

Examples:
  treefold mirror watch flights --at 127.0.0.1:7700
  treefold mirror watch flights --at 127.0.0.1:7700 --key DL146 --type status
  treefold mirror watch flights --at 127.0.0.1:7700 --from 'flights=1.10529' -o json | jq .event";

impl Watch {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let mut endings = Endings::catch()?;
        let client = front_end(&self.at, &self.cluster).await?;
        let mut builder = Reader::connect(&client, self.feed).from(self.from).patience(self.timeout);
        for key in self.keys {
            builder = builder.key(key);
        }
        for prefix in self.prefixes {
            builder = builder.prefix(prefix);
        }
        for kind in self.types {
            builder = builder.kind(kind);
        }
        let started = tokio::select! {
            started = builder.start() => started,
            () = endings.next() => return Ok(Verdict::Full),
        };
        let mut reader = match started {
            Ok(reader) => reader,
            Err(error) => return given_up(&error),
        };
        let lines = Lines::start(format).map_err(|error| unwritten(&error))?;
        let mut shown = Shown { format, feed: reader.feed().clone(), style: Style::of_stdout(), lines };
        let followed = follow(&mut reader, &mut shown, &mut endings).await;
        let verdict = match followed {
            Ok(Followed::Enough) => return Ok(Verdict::Full),
            Err(Stop::Output(error)) => return Err(unwritten(&error)),
            Ok(Followed::Ended) => Ok(Verdict::Full),
            Err(Stop::Reader(error)) => given_up(&error),
        };
        shown.end(reader.time());
        match shown.lines.finish().await {
            Ok(true) => {}
            Ok(false) => crate::tell!("treefold: nobody reads standard output, so the last lines are lost"),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(unwritten(&error)),
        }
        verdict
    }
}

/// How following ended without an error.
enum Followed {
    /// A signal came.
    Ended,
    /// The program that reads has read enough, as `head`.
    Enough,
}

/// The error that ended following.
enum Stop {
    Reader(ReaderError),
    Output(std::io::Error),
}

/// Shows updates until a signal comes. Signals are obeyed also while standard output takes nothing.
async fn follow(reader: &mut Reader, shown: &mut Shown, endings: &mut Endings) -> Result<Followed, Stop> {
    loop {
        let update = tokio::select! {
            biased;
            () = endings.next() => return Ok(Followed::Ended),
            update = reader.next() => update.map_err(Stop::Reader)?,
        };
        shown.show(&update).map_err(Stop::Output)?;
        if reader.has_updates() && !shown.lines.is_full() {
            continue;
        }
        let sent = tokio::select! {
            biased;
            () = endings.next() => return Ok(Followed::Ended),
            sent = shown.lines.send() => sent,
        };
        match sent {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Followed::Enough),
            Err(error) => return Err(Stop::Output(error)),
        }
    }
}

fn unwritten(error: &std::io::Error) -> Failure {
    Failure::failed(format!("can't write to standard output: {error}"))
}

fn given_up(error: &ReaderError) -> Result<Verdict, Failure> {
    match error {
        ReaderError::NoMirror { .. } => {
            crate::tell!("treefold: {error}");
            Ok(Verdict::Insufficient)
        }
        error => Err(Failure::failed(error.to_string())),
    }
}

/// Writes updates to standard output.
struct Shown {
    format: Format,
    feed: Name,
    style: Style,
    lines: Lines,
}

impl Shown {
    fn show(&mut self, update: &Update) -> std::io::Result<()> {
        match self.format {
            Format::Json => {
                write_line(update, &self.feed, self.lines.buffer());
                Ok(())
            }
            Format::Text => self.text(update),
        }
    }

    fn text(&mut self, update: &Update) -> std::io::Result<()> {
        let (line, style) = (self.lines.buffer(), self.style);
        match update {
            Update::Moved { mirror, because } => {
                writeln!(line, "{}", style.warning(format_args!("at mirror {mirror} now: {because}")))
            }
            Update::Begins(begins) => {
                let because = begins.because.map_or_else(String::new, |because| format!(": {because}"));
                writeln!(line, "{}", style.dim(format_args!("snapshot at {}{because}", begins.cut)))
            }
            Update::Row(row) => {
                let row = serde_json::to_value(row).map_err(std::io::Error::other)?;
                writeln!(line, "{} {}", plain(&row["key"]), safe::json(&row["fields"].to_string()))
            }
            Update::Complete(time) => writeln!(line, "{}", style.dim(format_args!("complete at {time}"))),
            Update::Event { at, event, .. } => {
                let mut json = Vec::new();
                treefold_mirror::event::write_json(event, &mut json);
                let event: serde_json::Value =
                    serde_json::from_slice(&json).map_err(std::io::Error::other)?;
                let fields = event.get("fields").map_or_else(|| "{}".to_owned(), ToString::to_string);
                let fields = safe::json(&fields);
                writeln!(
                    line,
                    "{} {} {} {fields}",
                    style.dim(at),
                    plain(&event["key"]),
                    plain(&event["type"])
                )
            }
            // It tells nothing to people.
            Update::At { .. } => Ok(()),
            Update::Lagging(because) => writeln!(line, "{}", style.warning(because)),
        }
    }

    /// Says the time from which a later run resumes.
    fn end(&mut self, time: Option<&VectorTime>) {
        let Some(time) = time else { return };
        let line = match self.format {
            Format::Json => serde_json::json!({ "ended": { "at": time.to_string() } }).to_string(),
            Format::Text => format!("resume with --from '{time}'"),
        };
        self.lines.buffer().extend_from_slice(line.as_bytes());
        self.lines.buffer().push(b'\n');
    }
}

/// A text of an event, on one line.
fn plain(text: &serde_json::Value) -> Cow<'_, str> {
    text.as_str().map_or(Cow::Borrowed(""), safe::line)
}
