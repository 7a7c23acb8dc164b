//! SIGHUP: reads the configuration file again, and applies what a running node can take.
//!
//! That is the shares and the log filter. The files that a node names (its keys, the gateway's tokens and certificate, seeds in
//! `@FILE`) are read again by themselves. Other keys that have changed are named in a warning, because they need a restart. A
//! file with a problem changes nothing.

use super::NodeArgs;
use crate::config::Settled;
use crate::exit::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use tokio::signal::unix::{Signal, SignalKind, signal};
use treefold::shares::{ServiceShare, ShareSetting};
use treefold::{Client, Node};

/// Reads a node's file again on each SIGHUP.
pub(super) struct Reloading<'a> {
    args: &'a NodeArgs,
    /// The file as it was when the node started: what needs a restart is compared with it.
    started: Settled,
    /// The log filter in force, if the file gave it.
    log: Option<String>,
    shares: BTreeMap<String, ServiceShare>,
    hangup: Option<Signal>,
}

impl<'a> Reloading<'a> {
    /// Catches the signal if the node has a file. Without one, it ends the process as usual.
    pub(super) fn catch(args: &'a NodeArgs, started: Settled) -> Result<Self, Failure> {
        let hangup = args.config.as_ref().map(|_| signal(SignalKind::hangup())).transpose();
        let hangup = hangup.map_err(|error| Failure::failed(format!("can't catch signals: {error}")))?;
        let log = started.file.log.clone();
        let shares = shares_of(args, &started)?;
        Ok(Self { args, started, log, shares, hangup })
    }

    /// Reads the file on each signal. Never returns.
    pub(super) async fn run(&mut self, node: &Node) {
        let client = node.client();
        let (Some(hangup), Some(path)) = (&mut self.hangup, &self.args.config) else {
            return std::future::pending().await;
        };
        // No further signal can come once the receiver has ended, which it does with the runtime.
        while hangup.recv().await.is_some() {
            let read = Settled::read(path).and_then(|file| Ok((shares_of(self.args, &file)?, file)));
            match read {
                Ok((shares, file)) => {
                    take_log(path, &mut self.log, &file);
                    take_shares(&client, path, &mut self.shares, shares).await;
                    warn(path, &self.started, &file);
                }
                Err(problem) => {
                    tracing::error!(file = %path.display(), %problem, "the file was not taken; nothing has changed");
                }
            }
        }
    }
}

/// The shares of the flags and of a file, after the checks of a start.
fn shares_of(args: &NodeArgs, file: &Settled) -> Result<BTreeMap<String, ServiceShare>, Failure> {
    let merged = args.settings_over(file)?.file;
    Ok(merged.shares.into_iter().map(|(service, share)| (service, share.0)).collect())
}

/// Sets the log filter if it has changed.
fn take_log(path: &Path, log: &mut Option<String>, file: &Settled) {
    if *log == file.file.log {
        return;
    }
    if crate::log::set_filter(file.file.log.as_deref()) {
        tracing::info!(file = %path.display(), log = ?file.file.log, "the log filter has changed");
    }
    log.clone_from(&file.file.log);
}

/// Sets the shares that have changed. One that the file no longer has is 1 again.
async fn take_shares(
    client: &Client,
    path: &Path,
    in_force: &mut BTreeMap<String, ServiceShare>,
    wanted: BTreeMap<String, ServiceShare>,
) {
    let gone = in_force.keys().filter(|service| !wanted.contains_key(*service));
    let gone = gone.map(|service| (service, ServiceShare::default()));
    let changed = wanted.iter().filter(|(service, share)| in_force.get(*service) != Some(share));
    let changed = changed.map(|(service, share)| (service, *share));
    let settings: Vec<ShareSetting> = gone
        .chain(changed)
        .map(|(service, ServiceShare { share, class })| ShareSetting {
            service: service.clone(),
            share,
            class: Some(class),
        })
        .collect();
    if settings.is_empty() {
        return;
    }
    let names: Vec<&str> = settings.iter().map(|setting| setting.service.as_str()).collect();
    let services = names.join(", ");
    match client.set_shares(settings.clone()).await {
        Ok(_) => {
            tracing::info!(file = %path.display(), %services, "the shares of these services have changed");
            *in_force = wanted;
        }
        Err(problem) => {
            tracing::error!(file = %path.display(), %services, %problem, "the shares were not taken");
        }
    }
}

/// Names the keys that need a restart.
fn warn(path: &Path, started: &Settled, file: &Settled) {
    let is_taken = |key: &String| key == "log" || key.starts_with("shares.");
    let rest: Vec<String> = started.changed(file).into_iter().filter(|key| !is_taken(key)).collect();
    if !rest.is_empty() {
        let keys = rest.join(", ");
        tracing::warn!(file = %path.display(), %keys, "changed, needs a restart");
    }
    file.warnings(path).iter().for_each(|warning| tracing::warn!("{warning}"));
}
