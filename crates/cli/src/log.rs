//! The log on standard error: lines for people, or one JSON object a line for programs.
//!
//! An event in JSON has the fields of the event schema (docs/traces.md): `at`, `level`, `target`, `message`, and those of the event
//! under their own names. The field `document` of an event is itself JSON, as of a slow call, and stays an object.

use crate::output::safe;
use crate::output::style::Style;
use clap::{Args, ValueEnum};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::fmt::{self, Debug};
use std::sync::OnceLock;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Sets the filter of a running log.
type Refilter = Box<dyn Fn(EnvFilter) -> bool + Send + Sync>;

/// The way to the filter of this process's log.
static REFILTER: OnceLock<Refilter> = OnceLock::new();

/// The environment variables with the log filter, and with the log's format.
const FILTER_VARIABLE: &str = "TREEFOLD_LOG";
const FORMAT_VARIABLE: &str = "TREEFOLD_LOG_FORMAT";
/// The log filter without that variable, and without a configuration file's.
const FILTER_DEFAULT: &str = "warn";
/// The field of an event that is JSON.
const DOCUMENT: &str = "document";

/// The option `--log-format`, which every command accepts.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LogArg {
    /// Format of the log on standard error: text for people, json for programs [default: the environment variable
    /// TREEFOLD_LOG_FORMAT, or text]
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        hide_possible_values = true,
        display_order = 901
    )]
    pub(crate) log_format: Option<LogFormat>,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Starts the log. Without a format, the environment says which.
pub(crate) fn to_stderr(format: Option<LogFormat>) {
    let named = || LogFormat::from_str(&std::env::var(FORMAT_VARIABLE).ok()?, true).ok();
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(FILTER_DEFAULT));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // It would be told on standard error too, and end a process whose standard error nobody reads any more.
    let log = log.log_internal_errors(false);
    match format.or_else(named) {
        Some(LogFormat::Json) => {
            let log = log.event_format(JsonLines).with_filter_reloading();
            let handle = log.reload_handle();
            keep(move |filter| handle.reload(filter).is_ok());
            log.init();
        }
        Some(LogFormat::Text) | None => {
            let log = log.with_ansi(Style::of_stderr().is_on()).fmt_fields(debug_fn(shown).delimited(" "));
            let log = log.with_filter_reloading();
            let handle = log.reload_handle();
            keep(move |filter| handle.reload(filter).is_ok());
            log.init();
        }
    }
}

/// Writes a field of an event for people. The library's own formatter makes only messages printable.
fn shown(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let text = format!("{value:?}");
    match field.name() {
        "message" => writer.write_str(&safe::text(&text)),
        name => write!(writer, "{name}={}", safe::line(&text)),
    }
}

fn keep(refilter: impl Fn(EnvFilter) -> bool + Send + Sync + 'static) {
    // The first one stays. A process has one log.
    let _ = REFILTER.set(Box::new(refilter));
}

/// Sets the log filter to this one, or to the default. Returns false if the environment has one, which overrides it.
pub(crate) fn set_filter(filter: Option<&str>) -> bool {
    if std::env::var_os(FILTER_VARIABLE).is_some() {
        return false;
    }
    let filter = EnvFilter::new(filter.unwrap_or(FILTER_DEFAULT));
    REFILTER.get().is_some_and(|refilter| refilter(filter))
}

/// Writes an event as one JSON object on one line.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut at = String::new();
        SystemTime.format_time(&mut Writer::new(&mut at))?;
        let metadata = event.metadata();
        let (level, target) = (metadata.level().as_str().to_lowercase(), metadata.target());
        let mut line = Line(format!("{{\"at\":\"{at}\",\"level\":\"{level}\",\"target\":{}", quoted(target)));
        event.record(&mut line);
        writeln!(writer, "{}}}", line.0)
    }
}

/// The fields of an event that were written so far.
struct Line(String);

impl Line {
    fn put(&mut self, field: &Field, json: &str) {
        // Names of the schema are not taken by fields of an event.
        let name = match field.name() {
            name @ ("at" | "level" | "target") => format!("event.{name}"),
            name => name.to_owned(),
        };
        self.0.push_str(&format!(",{}:{json}", quoted(&name)));
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        // A document that is no JSON on one line would break the log's own.
        let is_document = field.name() == DOCUMENT
            && !text.contains('\n')
            && serde_json::from_str::<IgnoredAny>(&text).is_ok();
        if is_document { self.put(field, &safe::json(&text)) } else { self.put(field, &quoted(&text)) }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, &quoted(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, &value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, &value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, &value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // A number that JSON does not have is null.
        self.put(field, &Value::from(value).to_string());
    }
}

fn quoted(text: &str) -> String {
    safe::json(&Value::from(text).to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(log: impl FnOnce()) -> Vec<Value> {
        let kept = Kept::default();
        let shared = kept.clone();
        let subscriber =
            tracing_subscriber::fmt().event_format(JsonLines).with_writer(move || shared.clone()).finish();
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn control_characters_reach_no_log_raw() {
        let hostile = "a\u{1b}[2J\nb\u{9b}2J\u{7f}";
        let kept = Kept::default();
        let shared = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .fmt_fields(debug_fn(shown).delimited(" "))
            .with_writer(move || shared.clone())
            .finish();
        let log = || tracing::warn!(reason = %hostile, name = hostile, "lost {hostile}");
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with('\n') && !text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert!(text.contains(r"reason=a\u{1b}[2J\nb\u{9b}2J\u{7f}"), "{text}");
        assert_eq!(logged(log)[0]["reason"], hostile);
    }

    #[test]
    fn event_is_one_object_with_its_fields() {
        let events = logged(|| {
            tracing::warn!(target: "treefold::test", count = 3_u64, share = 0.5, is_new = true, name = "a\"b", "two\nlines");
            tracing::info!(level = "odd", nan = f64::NAN, debug = ?Some(1), "x");
        });
        let first = &events[0];
        let time = first["at"].as_str().unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{time}");
        assert_eq!((&first["level"], &first["target"]), (&"warn".into(), &"treefold::test".into()));
        assert_eq!((&first["message"], &first["name"]), (&"two\nlines".into(), &"a\"b".into()));
        assert_eq!(
            (&first["count"], &first["share"], &first["is_new"]),
            (&3.into(), &0.5.into(), &true.into())
        );
        let second = &events[1];
        assert_eq!((&second["level"], &second["event.level"]), (&"info".into(), &"odd".into()));
        assert_eq!((&second["nan"], &second["debug"]), (&Value::Null, &"Some(1)".into()));
    }

    #[test]
    fn document_stays_json_if_it_is_json() {
        let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
        let events = logged(|| {
            tracing::warn!(document = %r#"{"a": [1]}"#, "good");
            tracing::warn!(document = %"{\"a\": ", "bad");
            tracing::warn!(document = %"[1,\n2]", "two lines");
        });
        let documents: Vec<&Value> = events.iter().map(|event| &event[DOCUMENT]).collect();
        assert_eq!(documents, [&serde_json::json!({"a": [1]}), &"{\"a\": ".into(), &"[1,\n2]".into()]);
        assert!(serde_json::from_str::<IgnoredAny>(&deep).is_ok(), "the tree of a long chain is deep");
    }
}
