//! The settings in force with a configuration file, as TOML that a node would take.

use super::Settled;
use super::keys::{self, Key, Kind, Table, written};
use crate::trust::{KEYS_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE};
use std::fmt::Write;
use treefold::{Limits, Tuning};
use treefold_core::bounds::{Range, Setting};
use treefold_core::membership::MembershipConfig;
use treefold_core::placement::PlacementTuning;
use treefold_gateway::Limits as GatewayLimits;

/// Variables that count where neither a flag nor the file says anything.
const VARIABLES: [&str; 4] = [KEYS_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE, "TREEFOLD_LOG"];

/// Writes the settings. Keys without a value are comments, and so is a token.
pub(crate) fn shown(settled: &Settled) -> String {
    let has_gateway = settled.given.contains_key("gateway.listen");
    let mut text = String::new();
    for table in Table::ALL {
        let is_of_gateway = matches!(table, Table::Gateway | Table::GatewayLimits);
        if is_of_gateway && !has_gateway {
            continue;
        }
        if table != Table::Top {
            let _ = writeln!(text, "\n[{}]", table.name());
        }
        if table == Table::Shares {
            settled
                .file
                .shares
                .keys()
                .for_each(|service| line(&mut text, settled, &share_of(service), service));
            continue;
        }
        keys::all()
            .iter()
            .filter(|key| key.table == table)
            .for_each(|key| line(&mut text, settled, key, key.name));
    }
    let set = VARIABLES.iter().filter(|variable| std::env::var_os(variable).is_some());
    for variable in set {
        let _ = writeln!(text, "\n# the environment variable {variable} is set, and may count too");
    }
    text
}

/// The key of one service's share.
fn share_of(service: &str) -> Key {
    Key {
        table: Table::Shares,
        name: "SERVICE",
        kind: Kind::Time,
        about: service.to_owned(),
        default: None,
        is_reloaded: true,
        is_secret: false,
    }
}

fn line(text: &mut String, settled: &Settled, key: &Key, name: &str) {
    let path = super::path_of(key.table, name);
    let name = if name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter)) {
        name.to_owned()
    } else {
        quoted(name)
    };
    let given = settled.given.get(&path);
    let _ = match (given, &key.default) {
        (Some(_), _) if key.is_secret => writeln!(text, "# {name} is set, and not shown"),
        (Some(_), _) => writeln!(text, "{name} = {}", value(settled, key, &path)),
        (None, Some(default)) => writeln!(text, "{name} = {default}"),
        (None, None) => writeln!(text, "# {name} is not set"),
    };
}

/// The value of a key that the file sets, as TOML.
fn value(settled: &Settled, key: &Key, path: &str) -> String {
    let given = settled.given.get(path).map(String::as_str).unwrap_or_default();
    let (file, name) = (&settled.file, key.name);
    match (key.kind, key.table) {
        (Kind::Figure(_), Table::Limits) => figure(Limits::SETTINGS, file.limits.as_ref(), name),
        (Kind::Figure(_), Table::Tuning) => figure(Tuning::SETTINGS, file.tuning.as_ref(), name),
        (Kind::Figure(_), Table::Membership) => {
            figure(MembershipConfig::SETTINGS, file.tuning.as_ref().map(|tuning| &tuning.membership), name)
        }
        (Kind::Figure(_), Table::Placement) => {
            figure(PlacementTuning::SETTINGS, file.tuning.as_ref().map(|tuning| &tuning.placement), name)
        }
        (Kind::Figure(Range::Bytes(..) | Range::Time(..)), _) => quoted(given),
        (Kind::Figure(_), _) => figure(GatewayLimits::SETTINGS, Some(&file.gateway.limits), name),
        (Kind::Texts(_), _) => {
            let texts = match name {
                "join" => &file.join,
                "accept" => &file.accept,
                "serve" => &file.serve,
                _ => &file.gateway.cors,
            };
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("[{}]", texts.join(", "))
        }
        (Kind::Switch | Kind::Count(..) | Kind::Share, _) => given.to_owned(),
        (Kind::Text(_) | Kind::Time, _) => quoted(given),
    }
}

fn figure<T>(settings: &[Setting<T>], table: Option<&T>, name: &str) -> String {
    let setting = settings.iter().find(|setting| setting.name == name);
    setting.zip(table).map(|(setting, table)| written(setting, table)).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
