//! The settings of a node: those of its flags, and those of its configuration file where no flag is given.

use super::attached::Attached;
use super::{NodeArgs, not_started};
use crate::config::{NodeFile, Settled, ShareText, contradiction};
use crate::exit::Failure;
use crate::serve::Serve;
use crate::trust::{Given, Trust};
use std::collections::BTreeSet;
use std::time::Duration;
use treefold::parts::check_exposure;
use treefold::shares::{ServiceShare, ShareSetting};
use treefold::{CLUSTER_DEFAULT, ClusterOptions};

/// Time that open work has to finish, unless a flag or the file says otherwise.
const GRACE_DEFAULT: Duration = Duration::from_secs(5);

/// The settings of the flags and of the file together.
pub(super) struct Settings {
    /// The merged settings.
    pub(super) file: NodeFile,
    pub(super) serve: Vec<Serve>,
    pub(super) grace: Duration,
    pub(super) trust: Trust,
    pub(super) attached: Option<Attached>,
}

impl Settings {
    /// The cluster that the file and the environment name, with the limits of the file.
    pub(super) fn cluster_options(&self) -> Result<ClusterOptions, Failure> {
        let name = self.file.cluster.as_deref().unwrap_or(CLUSTER_DEFAULT);
        let options = self.trust.cluster(name)?.insecure(self.file.insecure);
        Ok(match &self.file.limits {
            Some(limits) => options.limits(limits.clone()),
            None => options,
        })
    }
}

impl NodeArgs {
    /// The settings of the flags and of the file that `--config` names.
    pub(super) fn settle(&self) -> Result<(Settled, Settings), Failure> {
        let settled = self.config.as_deref().map_or_else(|| Ok(Settled::default()), Settled::read)?;
        let settings = self.settings_over(&settled)?;
        Ok((settled, settings))
    }

    /// The settings of the flags over those of a file.
    pub(super) fn settings_over(&self, settled: &Settled) -> Result<Settings, Failure> {
        let merged = self.clone().over(settled.file.clone());
        let serve = if self.serve.is_empty() { services_of(&merged)? } else { self.serve.clone() };
        let trust = Trust::given(Given {
            keys: merged.keys.clone(),
            token: merged.token.clone(),
            token_file: merged.token_file.clone(),
        });
        let processors = startable(&merged, &serve, trust.as_ref().ok())?;
        let (trust, file) = (trust?, NodeFile { processors, ..merged });
        let attached = Attached::of(file.attach.clone(), file.place.clone(), file.patience);
        Ok(Settings { serve, grace: file.grace.unwrap_or(GRACE_DEFAULT), trust, attached, file })
    }

    /// A file with the flags in it. Lists on the command line replace the file's.
    fn over(self, file: NodeFile) -> NodeFile {
        let is_recognised = self.keys.is_some() || self.token.is_some();
        let of_file = |given: Option<_>| given.filter(|_| !is_recognised);
        let attached = self.attached;
        NodeFile {
            listen: self.listen.or(file.listen),
            advertise: self.advertise.or(file.advertise),
            join: if self.join.is_empty() { file.join } else { self.join },
            rack: self.rack.or(file.rack),
            zone: self.zone.or(file.zone),
            name: self.name.or(file.name),
            relay: self.relay || file.relay,
            accept: if self.accept.is_empty() { file.accept } else { self.accept },
            shares: file.shares.into_iter().chain(self.shares.into_iter().map(share_of)).collect(),
            processors: self.processors.or(file.processors),
            workers: self.workers.or(file.workers),
            serve: file.serve,
            record: self.record.or(file.record),
            cluster: self.cluster.or(file.cluster),
            keys: self.keys.or_else(|| of_file(file.keys)),
            token_file: of_file(file.token_file),
            token: self.token.or(file.token.filter(|_| !is_recognised)),
            insecure: self.insecure || file.insecure,
            attach: attached.attach.or(file.attach),
            place: attached.place.or(file.place),
            patience: attached.patience.or(file.patience),
            grace: self.grace.or(file.grace),
            log: file.log,
            gateway: self.gateway.over(file.gateway),
            limits: file.limits,
            tuning: file.tuning,
        }
    }
}

/// Checks what `treefold node --config` would check if it were started here with this file and without further flags. Other files
/// are not opened.
pub(crate) fn check(file: &NodeFile) -> Result<(), Failure> {
    let is_elsewhere = file.keys.is_some() || file.token_file.is_some();
    let trust = match &file.token {
        _ if is_elsewhere => None,
        token => Some(Trust::given(Given { token: token.clone(), ..Given::default() })?),
    };
    startable(file, &services_of(file)?, trust.as_ref()).map(drop)
}

/// Refuses settings with which no node starts: the start of a node and `treefold config check` both run it. Without `trust`,
/// because its file was not opened, whether other machines reach the node is not judged. Returns the number of processors to
/// announce.
fn startable(file: &NodeFile, serve: &[Serve], trust: Option<&Trust>) -> Result<Option<u32>, Failure> {
    if let Some(problem) = contradiction(file, !serve.is_empty()) {
        return Err(Failure::usage(problem));
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = serve.iter().map(Serve::name).find(|name| !names.insert(*name)) {
        return Err(Failure::usage(format!("serve: the service {twice:?} is declared twice")));
    }
    let processors = announced(serve, file.processors)?;
    file.gateway.check(file.insecure)?;
    // A name is not looked up here; the node judges its addresses when it listens.
    let listen = file.listen.as_deref().and_then(|listen| listen.parse().ok());
    if let (Some(addr), Some(trust)) = (listen, trust) {
        let cluster = trust.cluster(file.cluster.as_deref().unwrap_or(CLUSTER_DEFAULT))?;
        check_exposure(&[addr], &cluster.insecure(file.insecure)).map_err(|error| not_started(&error))?;
    }
    Ok(processors)
}

/// The services that a file names.
fn services_of(file: &NodeFile) -> Result<Vec<Serve>, Failure> {
    file.serve.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(Failure::Rejected)
}

/// The number of processors to announce: the given one, or the one that a service emulates.
fn announced(serve: &[Serve], given: Option<u32>) -> Result<Option<u32>, Failure> {
    let Some(emulated) = serve.iter().find_map(Serve::emulated_processors) else { return Ok(given) };
    match given {
        Some(given) if given != emulated => Err(Failure::usage(format!(
            "emulate={emulated} and --processors {given} contradict each other: a node announces the processors that it \
             emulates; leave out --processors"
        ))),
        _ => Ok(Some(emulated)),
    }
}

fn share_of(setting: ShareSetting) -> (String, ShareText) {
    let ShareSetting { service, share, class } = setting;
    (service, ShareText(ServiceShare { share, class: class.unwrap_or_default() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io::Write;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        node: NodeArgs,
    }

    fn tried(arguments: &[&str]) -> Result<Settings, String> {
        let all = [&["node"], arguments].concat();
        let settled = Alone::try_parse_from(all).unwrap().node.settle();
        settled.map(|(_, settings)| settings).map_err(|failure| failure.to_string())
    }

    fn settings(arguments: &[&str]) -> Settings {
        tried(arguments).unwrap()
    }

    #[test]
    fn node_announces_the_processors_that_it_emulates() {
        let emulating = "search=.:partitions=0/1:emulate=4";
        assert_eq!(settings(&["--serve", emulating]).file.processors, Some(4));
        assert_eq!(settings(&["--serve", emulating, "--processors", "4"]).file.processors, Some(4));
        let refused = tried(&["--serve", emulating, "--processors", "2"]).map(drop).unwrap_err();
        assert!(refused.contains("emulate=4 and --processors 2 contradict each other"), "{refused}");
    }

    #[test]
    fn flags_win_over_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(
            file,
            "listen = 'file:1'\nrack = 'file'\nserve = ['micro:partitions=0/1']\ngrace = '1s'\ntoken = 'of the file'\n\
             [shares]\nmicro = 2\necho = 3\n"
        )
        .unwrap();
        let path = file.path().to_str().unwrap();
        let both = settings(&["--config", path, "--rack", "flag", "--join", "a:1,b:2", "--share", "micro=5"]);
        assert_eq!(both.file.rack.as_deref(), Some("flag"));
        assert_eq!(both.file.listen.as_deref(), Some("file:1"));
        assert_eq!(both.file.join, ["a:1", "b:2"]);
        assert_eq!(both.serve.len(), 1);
        assert_eq!(both.grace, Duration::from_secs(1));
        assert_eq!(both.trust.token().map(|token| token.reveal().to_owned()).as_deref(), Some("of the file"));
        let shares: Vec<_> = both.file.shares.values().map(|share| share.0.share).collect();
        assert_eq!(shares, [3.0, 5.0]);
        let two = ["--serve", "micro:partitions=0/2", "--serve", "echo:partitions=1/2"];
        let served =
            settings(&[&["--config", path, "--grace", "2s", "--token", "of the flag"], &two[..]].concat());
        assert_eq!(served.serve.len(), 2, "a list on the command line replaces the file's");
        assert_eq!(served.grace, Duration::from_secs(2));
        assert_eq!(
            served.trust.token().map(|token| token.reveal().to_owned()).as_deref(),
            Some("of the flag")
        );
    }

    #[test]
    fn a_flag_and_the_file_may_not_exclude_each_other() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "serve = ['micro:partitions=0/1']").unwrap();
        let refused = tried(&["--config", file.path().to_str().unwrap(), "--relay"]).map(drop).unwrap_err();
        assert_eq!(refused, "a relay holds no partitions: leave out relay or serve");
    }

    #[test]
    fn a_service_is_served_once() {
        let twice = ["--serve", "micro:partitions=0/2", "--serve", "micro:partitions=1/2"];
        let refused = tried(&twice).map(drop).unwrap_err();
        assert_eq!(refused, "serve: the service \"micro\" is declared twice");
    }

    #[test]
    fn grace_has_a_default() {
        assert_eq!(settings(&[]).grace, GRACE_DEFAULT);
    }
}
