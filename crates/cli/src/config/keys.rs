//! Every key of a configuration file.
//!
//! The keys of limits and tuning, with their ranges and texts, are those of the tables in core and in the gateway. The others
//! are listed here; their texts are the help of the flags. So there is one list, for reading, for the schema and for the page.

use crate::commands::node::NodeArgs;
use crate::parse;
use crate::serve::Serve;
use clap::{Args, Command};
use treefold::parts::{check_cluster, check_name};
use treefold::{Limits, Tuning};
use treefold_core::bounds::{Range, Setting};
use treefold_core::membership::MembershipConfig;
use treefold_core::membership::card::NAME_BYTES_MAX;
use treefold_core::placement::PlacementTuning;
use treefold_gateway::{Limits as GatewayLimits, check_origin};
use treefold_traces::settings::Endpoint;

/// A table of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Top,
    Shares,
    Gateway,
    GatewayLimits,
    Limits,
    Tuning,
    Membership,
    Placement,
}

impl Table {
    /// All tables, in the order in which they are shown.
    pub(crate) const ALL: [Self; 8] = [
        Self::Top,
        Self::Shares,
        Self::Gateway,
        Self::GatewayLimits,
        Self::Limits,
        Self::Tuning,
        Self::Membership,
        Self::Placement,
    ];

    /// Its name in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Top => "",
            Self::Shares => "shares",
            Self::Gateway => "gateway",
            Self::GatewayLimits => "gateway.limits",
            Self::Limits => "limits",
            Self::Tuning => "tuning",
            Self::Membership => "tuning.membership",
            Self::Placement => "tuning.placement",
        }
    }

    /// True if files written for earlier versions may have times as numbers of nanoseconds here.
    pub(crate) fn takes_nanoseconds(self) -> bool {
        matches!(self, Self::Limits | Self::Tuning | Self::Membership | Self::Placement)
    }
}

/// The kind of a key's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A text that this function accepts, or refuses with a reason.
    Text(fn(&str) -> Result<(), String>),
    /// A list of such texts.
    Texts(fn(&str) -> Result<(), String>),
    /// True or false.
    Switch,
    /// A number, from the first to the second.
    Count(u64, u64),
    /// A time with its unit.
    Time,
    /// A number from 0 to 1.
    Share,
    /// A setting with its range.
    Figure(Range),
}

/// A key.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) table: Table,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Its text for readers.
    pub(crate) about: String,
    /// The value in force without it, as TOML.
    pub(crate) default: Option<String>,
    /// True if a running node takes a new value on SIGHUP.
    pub(crate) is_reloaded: bool,
    /// True if its value is not shown.
    pub(crate) is_secret: bool,
}

/// A key of the table at the top, or of the gateway: the flag that sets it too, and its default.
struct Plain {
    table: Table,
    name: &'static str,
    source: Source,
    kind: Kind,
    default: Option<&'static str>,
}

/// Where the text for readers is.
enum Source {
    /// The help of the flag with this id.
    Flag(&'static str),
    /// Here, because no flag sets the key.
    Text(&'static str),
}

use Kind::{Count, Share, Switch, Text, Texts, Time};
use Source::Flag;

const fn top(name: &'static str, kind: Kind, default: Option<&'static str>) -> Plain {
    Plain { table: Table::Top, name, source: Flag(name), kind, default }
}

const fn gateway(name: &'static str, flag: &'static str, kind: Kind) -> Plain {
    Plain { table: Table::Gateway, name, source: Flag(flag), kind, default: None }
}

const PLAIN: [Plain; 34] = [
    top("listen", Text(address), Some("\"127.0.0.1:7700\"")),
    top("advertise", Text(address), None),
    top("join", Texts(seed), None),
    top("rack", Text(|text| place("rack", text)), None),
    top("zone", Text(|text| place("zone", text)), None),
    top("name", Text(|text| place("name", text)), None),
    top("relay", Switch, Some("false")),
    top("accept", Texts(application), None),
    top("processors", Count(1, u32::MAX as u64), None),
    top("workers", Count(1, parse::WORKERS_MAX as u64), None),
    top("serve", Texts(serve), None),
    top("record", Text(any), None),
    top("cluster", Text(cluster), Some("\"treefold\"")),
    Plain {
        source: Source::Text(
            "Token of the cluster; nodes with another token are refused. A file that other users can read is warned about",
        ),
        ..top("token", Text(token), None)
    },
    Plain {
        source: Source::Text("File with the token of the cluster"),
        ..top("token_file", Text(any), None)
    },
    top("keys", Text(any), None),
    top("insecure", Switch, Some("false")),
    top("attach", Text(address), None),
    Plain { source: Flag("place"), ..top("as", Text(any), None) },
    top("patience", Time, Some("\"2s\"")),
    top("grace", Time, Some("\"5s\"")),
    Plain {
        source: Source::Text(
            "Log filter for standard error, e.g. info or treefold=debug; the environment variable TREEFOLD_LOG overrides it",
        ),
        ..top("log", Text(filter), Some("\"warn\""))
    },
    Plain {
        table: Table::Shares,
        source: Source::Text(
            "One key for each service: its share of the node, as in 3, or with its class, as in \"1:batch\"",
        ),
        ..top("SERVICE", Text(any), None)
    },
    gateway("listen", "gateway", Text(address)),
    gateway("tokens", "gateway_tokens", Text(any)),
    gateway("tls_cert", "gateway_tls_cert", Text(any)),
    gateway("tls_key", "gateway_tls_key", Text(any)),
    gateway("cors", "gateway_cors", Texts(origin)),
    gateway("otlp", "otlp", Text(collector)),
    gateway("trace_file", "trace_file", Text(any)),
    gateway("trace_sample", "trace_sample", Share),
    gateway("trace_per_second", "trace_per_second", Count(0, u32::MAX as u64)),
    gateway("slow_call", "slow_call", Time),
    gateway("slow_call_log", "slow_call_log", Text(any)),
];

/// The keys that a running node takes anew.
const RELOADED: [(Table, &str); 2] = [(Table::Top, "log"), (Table::Shares, "SERVICE")];

fn any(_: &str) -> Result<(), String> {
    Ok(())
}

/// The name of a rack, a zone or a node, as the card of a node has it.
fn place(key: &str, text: &str) -> Result<(), String> {
    if text.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(format!("{key} has {} bytes; allowed: at most {NAME_BYTES_MAX}", text.len()))
}

fn application(text: &str) -> Result<(), String> {
    check_name(text).map_err(|error| format!("accept: {error}"))
}

fn cluster(text: &str) -> Result<(), String> {
    check_cluster(text).map_err(|error| error.to_string())
}

fn token(text: &str) -> Result<(), String> {
    crate::trust::valid(text.to_owned()).map(drop).map_err(|failure| failure.to_string())
}

fn origin(text: &str) -> Result<(), String> {
    check_origin(text).map_err(|error| error.to_string())
}

fn address(text: &str) -> Result<(), String> {
    parse::address(text).map(drop).map_err(|error| error.to_string())
}

fn collector(text: &str) -> Result<(), String> {
    Endpoint::of_collector(text).map(drop).map_err(|error| error.to_string())
}

fn seed(text: &str) -> Result<(), String> {
    parse::seed(text).map(drop).map_err(|error| error.to_string())
}

fn serve(text: &str) -> Result<(), String> {
    text.parse::<Serve>().map(drop).map_err(|error| error.to_string())
}

fn filter(text: &str) -> Result<(), String> {
    let refuse =
        |error| format!("log is {text:?}; allowed: a filter, as in info or treefold=debug ({error})");
    text.parse::<tracing_subscriber::EnvFilter>().map(drop).map_err(refuse)
}

/// Every key, by table, in the order of the documentation.
pub(crate) fn all() -> Vec<Key> {
    let node = NodeArgs::augment_args(Command::new("node"));
    let mut keys: Vec<Key> = PLAIN.iter().map(|plain| key_of(plain, &node)).collect();
    keys.extend(figures(Table::GatewayLimits, GatewayLimits::SETTINGS, &GatewayLimits::default()));
    keys.extend(figures(Table::Limits, Limits::SETTINGS, &Limits::DEFAULT));
    keys.extend(figures(Table::Tuning, Tuning::SETTINGS, &Tuning::LAN));
    keys.extend(figures(Table::Membership, MembershipConfig::SETTINGS, &Tuning::LAN.membership));
    keys.extend(figures(Table::Placement, PlacementTuning::SETTINGS, &Tuning::LAN.placement));
    keys
}

fn key_of(plain: &Plain, node: &Command) -> Key {
    let about = match plain.source {
        Flag(flag) => {
            let found = node.get_arguments().find(|argument| argument.get_id() == flag);
            let help = found.and_then(|argument| argument.get_help()).map(ToString::to_string);
            // The page and the schema give defaults in their own way, and lists are lists.
            let help = help.unwrap_or_default().replace("; may be repeated", "").replace(" (see below)", "");
            help.split(" [default:").next().unwrap_or_default().to_owned()
        }
        Source::Text(text) => text.to_owned(),
    };
    Key {
        table: plain.table,
        name: plain.name,
        kind: plain.kind,
        about,
        default: plain.default.map(str::to_owned),
        is_reloaded: RELOADED.contains(&(plain.table, plain.name)),
        is_secret: plain.name == "token",
    }
}

fn figures<T>(table: Table, settings: &[Setting<T>], defaults: &T) -> Vec<Key> {
    let key = |setting: &Setting<T>| Key {
        table,
        name: setting.name,
        kind: Kind::Figure(setting.range),
        about: first_paragraph(setting.docs),
        default: Some(written(setting, defaults)),
        is_reloaded: false,
        is_secret: false,
    };
    settings.iter().map(key).collect()
}

/// The value of a setting as TOML.
pub(crate) fn written<T>(setting: &Setting<T>, table: &T) -> String {
    let text = setting.range.text((setting.read)(table)).to_string();
    match setting.range {
        Range::Bytes(..) | Range::Time(..) | Range::Policy => format!("\"{text}\""),
        Range::Count(..) | Range::Fraction(..) | Range::Switch => text,
    }
}

/// The first paragraph of a doc comment, without its links.
fn first_paragraph(docs: &[&str]) -> String {
    let lines: Vec<&str> = docs.iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect();
    let (mut text, mut rest) = (String::new(), lines.join(" "));
    // `[name](address)` and `[name]` become the name.
    while let Some((before, after)) = rest.split_once('[') {
        let Some((name, after)) = after.split_once(']') else { break };
        text.push_str(before);
        text.push_str(name);
        let link = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        rest = link.map_or(after, |(_, after)| after).to_owned();
    }
    text.push_str(&rest);
    // A setting of the same table needs no type before it.
    let text = text.replace("Tuning::", "");
    text.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeFile;

    /// Flags without a key, each with the reason.
    const EXEMPT: [(&str, &str); 1] = [("config", "the file can't name itself")];

    #[test]
    fn every_flag_of_a_node_has_a_key() {
        let node = NodeArgs::augment_args(Command::new("node"));
        for argument in node.get_arguments() {
            let id = argument.get_id().as_str();
            let has_key = PLAIN.iter().any(|key| matches!(key.source, Flag(flag) if flag == id))
                || [("shares", Table::Shares), ("token", Table::Top)].iter().any(|(flag, _)| *flag == id);
            let is_exempt = EXEMPT.iter().any(|(flag, _)| *flag == id);
            assert!(
                has_key != is_exempt,
                "the flag {id} needs a key in the configuration file, or a reason here"
            );
        }
        for key in PLAIN {
            let Flag(flag) = key.source else { continue };
            assert!(node.get_arguments().any(|argument| argument.get_id() == flag), "{flag} is no flag");
        }
    }

    #[test]
    fn the_keys_are_the_fields_of_the_file() {
        let refused = toml::from_str::<NodeFile>("zzz = 1").unwrap_err().message().to_owned();
        let fields: Vec<&str> = refused.split('`').skip(3).step_by(2).collect();
        let tables = ["shares", "gateway", "limits", "tuning"];
        let listed = PLAIN.iter().filter(|key| key.table == Table::Top).map(|key| key.name);
        let mut listed: Vec<&str> = listed.chain(tables).collect();
        let mut fields = fields;
        listed.sort_unstable();
        fields.sort_unstable();
        assert_eq!(listed, fields);
    }

    #[test]
    fn every_key_has_a_text_without_markup() {
        for key in all() {
            assert!(
                !key.about.is_empty() && !key.about.contains(['[', ']']),
                "{}: {:?}",
                key.name,
                key.about
            );
        }
    }
}
