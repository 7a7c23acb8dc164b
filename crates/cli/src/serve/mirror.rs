//! `mirror`: a mirror of a feed, with an optional listener for readers over HTTP.

use super::folders::Folder;
use super::kind::Offer;
use super::words::{Words, is_service_name};
use super::{Companion, Opened, Running};
use crate::parse;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use treefold::{CallError, Client, PartitionSet};
use treefold_feed::{HttpOptions, MirrorOptions, PromiseFile, Unstarted, mirror};
use treefold_mirror::Name;
use treefold_mirror::rules::file::StateOptions;

/// Time that readers over HTTP have to take their last message.
const READERS_GRACE: Duration = Duration::from_millis(500);

pub(super) struct Kind;

impl super::kind::Kind for Kind {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["http", "http-public", "promises", "deletes", "retention"]
    }

    fn form(&self) -> &'static str {
        "mirror with a feed, one partition of a total, and optionally an address for readers, as in \
         mirror=flights:partitions=0/4:http=127.0.0.1:7780"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        let feed = words.subject()?;
        let (partitions, total) = words.partitions()?;
        if !is_service_name(feed) || total.is_none() || partitions.len() != 1 {
            return Err(words.refuse(self.form()));
        }
        let http = match (words.of("http"), words.of("http-public")) {
            (Some(_), Some(_)) => return Err(words.refuse("http or http-public, and not both")),
            (Some(addr), None) => Some(listener(words, addr, false)?),
            (None, Some(addr)) => Some(listener(words, addr, true)?),
            (None, None) => None,
        };
        let state = StateOptions {
            deletes: words.of("deletes").map_or(Ok(Vec::new()), types)?,
            retention_ms: words.of("retention").map(retention_ms).transpose()?,
        };
        Ok(Arc::new(Mirror { feed: feed.to_owned(), http, promises: words.path("promises"), state }))
    }
}

/// A mirror of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirror {
    feed: String,
    /// Its listener for readers.
    http: Option<HttpOptions>,
    /// The file of its promises.
    promises: Option<PathBuf>,
    state: StateOptions,
}

impl Offer for Mirror {
    fn name(&self) -> &str {
        &self.feed
    }

    fn folders(&self, _: u32) -> Vec<Folder> {
        let parent = self.promises.as_deref().and_then(Path::parent);
        parent.map(|path| Folder::written(path.to_owned(), "promises")).into_iter().collect()
    }

    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String> {
        let number = partitions.least().expect("invariant: a mirror has one partition");
        let mut options = MirrorOptions::new(&self.feed, number, total);
        options.state = self.state.clone();
        if let Some(path) = &self.promises {
            let read = PromiseFile::read(path, &self.feed, number, total);
            options.promises = Some(read.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        let (service, unstarted) = mirror(options);
        let http = self.http.clone();
        let companion = Companion {
            connections_max: http.as_ref().map_or(0, |http| http.limits.connections_max),
            start: Box::new(move |client| Box::pin(start(unstarted, http, client))),
        };
        Ok(Opened { service, companion: Some(companion) })
    }
}

async fn start(unstarted: Unstarted, http: Option<HttpOptions>, client: Client) -> Result<Running, String> {
    let mirror = unstarted.start(client);
    let Some(http) = http else {
        return Ok(Running { readers: None, end: Box::pin(async {}), kept: Box::new(mirror) });
    };
    let listener = mirror.listen(http).await.map_err(|error| error.to_string())?;
    let readers = Some((mirror.feed().to_owned(), listener.addr()));
    Ok(Running { readers, end: Box::pin(listener.shutdown(READERS_GRACE)), kept: Box::new(mirror) })
}

/// Parses the types of events that remove their keys.
fn types(value: &str) -> Result<Vec<Name>, CallError> {
    let of = |name: &str| {
        Name::new(name.to_owned())
            .map_err(|error| CallError::bad_field("deletes", name, format_args!("names of types ({error})")))
    };
    value.split(',').map(of).collect()
}

/// Parses the age at which a key is removed.
fn retention_ms(value: &str) -> Result<u64, CallError> {
    let ms = u64::try_from(parse::duration(value)?.as_millis()).unwrap_or(u64::MAX);
    match ms {
        0 => Err(CallError::bad_field("retention", value, "at least 1ms")),
        ms => Ok(ms),
    }
}

/// Parses the address of a listener for readers. `http` takes addresses of this machine only.
fn listener(words: &Words<'_>, value: &str, is_public: bool) -> Result<HttpOptions, CallError> {
    let addr: SocketAddr =
        value.parse().map_err(|_| words.refuse("http with IP:PORT, as in http=127.0.0.1:7780"))?;
    if !is_public && !addr.ip().is_loopback() {
        return Err(words.refuse(
            "http with a loopback address. Readers are not authenticated; http-public allows other addresses",
        ));
    }
    Ok(HttpOptions { is_public, ..HttpOptions::new(addr) })
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind as _;
    use super::*;

    fn read(text: &str) -> Result<String, CallError> {
        Kind.parse(&Words::split(text, &Kind)?).map(|offer| format!("{offer:?}"))
    }

    fn is_read_as(text: &str, mirror: &Mirror) {
        assert_eq!(read(text).unwrap(), format!("{mirror:?}"));
    }

    #[test]
    fn names_a_feed_and_the_mirrors_options() {
        let plain =
            Mirror { feed: "flights".to_owned(), http: None, promises: None, state: StateOptions::default() };
        is_read_as("mirror=flights:partitions=1/4", &plain);
        let kept = Mirror { promises: Some("/var/m1".into()), ..plain.clone() };
        is_read_as("mirror=flights:partitions=1/4:promises=/var/m1", &kept);
        let deletes = ["departed", "lost"].map(|name| Name::new(name.to_owned()).unwrap()).to_vec();
        let state = StateOptions { deletes, retention_ms: Some(1_500) };
        let pruned = Mirror { state, ..plain.clone() };
        is_read_as("mirror=flights:partitions=1/4:deletes=departed,lost:retention=1.5s", &pruned);
        let http = Some(HttpOptions::new("[::1]:7780".parse().unwrap()));
        is_read_as("mirror=flights:partitions=1/4:http=[::1]:7780", &Mirror { http, ..plain });
        assert!(read("mirror=flights:partitions=1/4:http-public=0.0.0.0:0").is_ok());
        for wrong in ["deletes=", "deletes=a,,b", "retention=0s", "retention=5", "http=::1:http-public=::1"] {
            assert!(read(&format!("mirror=flights:partitions=1/4:{wrong}")).is_err(), "{wrong}");
        }
    }
}
