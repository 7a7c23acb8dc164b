//! Lookups by a resolver of our own process: SRV records, which the system's resolver does not know, and names at a given
//! server.
//!
//! The resolver reads the system's configuration (servers, search domains, time limits). Names of SRV targets whose addresses
//! the answer does not contain are looked up too, at most [`TARGETS_MAX`] of them.

use super::{ADDRS_PER_NAME_MAX, take_some};
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData};
use hickory_resolver::{Resolver, TokioResolver};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

/// The most targets of SRV records that are looked up: each costs two questions.
const TARGETS_MAX: usize = ADDRS_PER_NAME_MAX;

/// The addresses of a name, as this server knows them.
pub(super) fn look_up_name(
    name: &str,
    port: u16,
    server: SocketAddr,
    give_up_at: Instant,
) -> io::Result<Vec<SocketAddr>> {
    run(give_up_at, async {
        let found = resolver(Some(server))?.lookup_ip(name).await?;
        Ok(found.iter().map(|ip| SocketAddr::new(ip, port)).collect())
    })
}

/// The addresses of the targets of SRV records, by the system's servers or by this one. Targets of a better priority come first.
pub(super) fn look_up_service(
    name: &str,
    server: Option<SocketAddr>,
    give_up_at: Instant,
) -> io::Result<Vec<SocketAddr>> {
    run(give_up_at, async {
        let resolver = resolver(server)?;
        let found = resolver.srv_lookup(name).await?;
        let mut targets: Vec<&SRV> = services(&found).collect();
        take_some(&mut targets);
        targets.sort_by_key(|target| target.priority);
        targets.truncate(TARGETS_MAX);
        let mut addrs = Vec::new();
        for SRV { target, port, .. } in targets {
            let mut ips: Vec<IpAddr> = beside(&found, target).collect();
            if ips.is_empty() {
                // A target without an address is a node that is gone, or is not there yet.
                ips = resolver
                    .lookup_ip(target.clone())
                    .await
                    .map(|ips| ips.iter().collect())
                    .unwrap_or_default();
            }
            addrs.extend(ips.into_iter().map(|ip| SocketAddr::new(ip, *port)));
        }
        Ok(addrs)
    })
}

/// Runs a lookup on a runtime of its own, on this thread.
fn run<T>(give_up_at: Instant, lookup: impl Future<Output = Result<T, NetError>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let within = give_up_at.saturating_duration_since(Instant::now());
    runtime.block_on(async {
        match tokio::time::timeout(within, lookup).await {
            Ok(found) => found.map_err(plain),
            Err(_) => Err(super::silent()),
        }
    })
}

/// The error in the words of this program. That a name has no records is the usual one.
fn plain(error: NetError) -> io::Error {
    if error.is_no_records_found() {
        return io::Error::new(io::ErrorKind::NotFound, "the name servers have no such records");
    }
    io::Error::other(error)
}

fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, NetError> {
    let mut builder = match server {
        None => TokioResolver::builder_tokio()?,
        Some(server) => {
            let mut config = NameServerConfig::udp_and_tcp(server.ip());
            config.connections.iter_mut().for_each(|connection| connection.port = server.port());
            let config = ResolverConfig::from_name_servers(vec![config]);
            Resolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    let options = builder.options_mut();
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.cache_size = 0;
    builder.build()
}

/// The SRV records of an answer.
fn services(found: &Lookup) -> impl Iterator<Item = &SRV> {
    found.answers().iter().filter_map(|record| match &record.data {
        RData::SRV(service) => Some(service),
        _ => None,
    })
}

/// The addresses of a target that the server has sent beside its answer.
fn beside<'a>(found: &'a Lookup, target: &'a Name) -> impl Iterator<Item = IpAddr> + 'a {
    found
        .additionals()
        .iter()
        .filter(move |record| record.name == *target)
        .filter_map(|record| record.data.ip_addr())
}
