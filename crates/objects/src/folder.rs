//! A folder of an object store.

use crate::error::ObjectsError;
use crate::limits::{
    CONNECT_TIMEOUT, FOLDERS_MAX, NAME_BYTES_MAX, OBJECTS_MAX, READ_BYTES_MAX, REQUEST_TIMEOUT, RETRIES_MAX,
    RETRY_TIMEOUT,
};
use crate::runtime;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::ClientConfigKey;
use object_store::path::Path;
use object_store::{GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

const SCHEME: &str = "s3://";
/// The character behind the slash: a name that ends with it is behind all names in a folder.
const AFTER_SLASH: char = '0';

/// A folder of a bucket, as in `s3://bucket/docs`.
///
/// The environment has the rest, by the names that other programs use: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
/// `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL` for another store than Amazon's, `AWS_SKIP_SIGNATURE=true` for a
/// public bucket. Without keys, the credentials of the machine or of the pod are taken.
#[derive(Clone)]
pub struct Folder {
    url: String,
    /// The endpoint and the address.
    identity: String,
    prefix: Path,
    pub(crate) store: Arc<dyn ObjectStore>,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Folder").field(&self.url).finish()
    }
}

/// One object of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Object {
    /// Its name below the folder, with slashes, as in `generation-1/0003/meta.json`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The store's tag of its content (`ETag`), or the second of its last change, if its listing has no tags.
    pub tag: String,
}

impl Object {
    fn new(name: String, meta: &ObjectMeta) -> Self {
        Self { name, bytes: meta.size, tag: tag_of(meta) }
    }

    /// True if an answer with the object is of the version that was listed.
    ///
    /// Some stores have tags in such answers, and none in listings.
    pub(crate) fn is_version_of(&self, meta: &ObjectMeta) -> bool {
        let tag = if self.tag.starts_with(MODIFIED) { modified(meta) } else { tag_of(meta) };
        self.tag == tag && self.bytes == meta.size
    }
}

/// Begins the tag of an object without one.
const MODIFIED: &str = "modified ";

fn tag_of(meta: &ObjectMeta) -> String {
    meta.e_tag.clone().unwrap_or_else(|| modified(meta))
}

/// The second of an object's last change. An answer with the object has no finer one.
fn modified(meta: &ObjectMeta) -> String {
    format!("{MODIFIED}{}", meta.last_modified.timestamp())
}

impl Folder {
    /// True for a text that is meant as the address of a store, and not as a path.
    pub fn is_url(text: &str) -> bool {
        text.contains("://")
    }

    /// Checks an address, without looking for its store.
    ///
    /// # Errors
    /// [`ObjectsError::Url`].
    pub fn check(url: &str) -> Result<(), ObjectsError> {
        parts(url).map(drop)
    }

    /// Makes a client for a folder. Nothing is requested yet.
    ///
    /// # Errors
    /// [`ObjectsError::Url`], and [`ObjectsError::Settings`] if the environment is contradictory.
    pub fn at(url: &str) -> Result<Self, ObjectsError> {
        Self::with_settings(url, &[])
    }

    /// Makes a client with settings that go before those of the environment, by the same names.
    ///
    /// # Errors
    /// As [`Folder::at`].
    pub fn with_settings(url: &str, settings: &[(&str, &str)]) -> Result<Self, ObjectsError> {
        let (bucket, prefix) = parts(url)?;
        let unfit = |reason: String| ObjectsError::Settings { url: url.to_owned(), reason };
        // The client takes the process's provider. Another part of the process may have set it, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(RetryConfig {
            max_retries: RETRIES_MAX,
            retry_timeout: RETRY_TIMEOUT,
            ..RetryConfig::default()
        });
        let client = AmazonS3ConfigKey::Client;
        let defaults =
            [(ClientConfigKey::ConnectTimeout, CONNECT_TIMEOUT), (ClientConfigKey::Timeout, REQUEST_TIMEOUT)];
        for (key, value) in defaults {
            if !is_in_environment(client(key)) {
                builder = builder.with_config(client(key), value);
            }
        }
        for (name, value) in settings {
            let key: AmazonS3ConfigKey = name
                .to_ascii_lowercase()
                .parse()
                .map_err(|_| unfit(format!("there is no setting {name}")))?;
            builder = builder.with_config(key, *value);
        }
        // An operator who names an endpoint without TLS means it.
        let endpoints = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
        let endpoint = endpoints.iter().find_map(|key| builder.get_config_value(key)).unwrap_or_default();
        if endpoint.starts_with("http://") {
            builder = builder.with_config(client(ClientConfigKey::AllowHttp), "true");
        }
        let store = builder.build().map_err(|error| unfit(error.to_string()))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { identity: format!("{endpoint} {url}"), url, prefix, store: Arc::new(store) })
    }

    /// Distinguishes folders of the same address in different stores.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Its address, as it was given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Lists the objects whose names begin with the folder `below`; with an empty `below`, all objects of this folder.
    ///
    /// They are sorted by name.
    ///
    /// # Errors
    /// [`ObjectsError::Unreachable`], [`ObjectsError::Refused`]; [`ObjectsError::Limit`] beyond [`OBJECTS_MAX`] objects,
    /// [`ObjectsError::Name`] for an object that can't be a file. Blocks.
    pub fn list(&self, below: &str) -> Result<Vec<Object>, ObjectsError> {
        self.run(self.listed(below))
    }

    /// Lists the folders directly in this one, the first [`FOLDERS_MAX`] by name.
    ///
    /// # Errors
    /// [`ObjectsError::Unreachable`], [`ObjectsError::Refused`]. Blocks.
    pub fn folders(&self) -> Result<Vec<String>, ObjectsError> {
        self.run(async {
            let of = |error| ObjectsError::of_store(&self.url, "", &error);
            let (mut found, mut after) = (Vec::new(), String::new());
            while found.len() < FOLDERS_MAX {
                let mut listing = match after.as_str() {
                    "" => self.store.list(Some(&self.prefix)),
                    after => self.store.list_with_offset(Some(&self.prefix), &self.location(after)?),
                };
                // The first object in a folder is enough, and the next folder begins behind the last one.
                let next = loop {
                    let Some(meta) = listing.try_next().await.map_err(of)? else { return Ok(found) };
                    let name = self.name_of(&meta.location).unwrap_or_default();
                    if let Some((folder, _)) = name.split_once('/') {
                        break folder.to_owned();
                    }
                };
                after = format!("{next}{AFTER_SLASH}");
                found.push(next);
            }
            Ok(found)
        })
    }

    /// Reads a small object.
    ///
    /// # Errors
    /// As [`Folder::list`], and [`ObjectsError::Missing`]. Blocks.
    pub fn read(&self, name: &str) -> Result<(Object, Bytes), ObjectsError> {
        self.run(async {
            let of = |error| ObjectsError::of_store(&self.url, name, &error);
            let got = self.store.get(&self.location(name)?).await.map_err(of)?;
            let object = Object::new(name.to_owned(), &got.meta);
            if object.bytes > READ_BYTES_MAX {
                let what = format!("{name} with {} bytes", object.bytes);
                return Err(self.limit(what, format!("{READ_BYTES_MAX} bytes")));
            }
            let content = self.content(got, name, object.bytes).await?;
            Ok((object, content))
        })
    }

    /// Reads an answer of exactly `bytes` bytes. A store that sends more is not read to its end.
    pub(crate) async fn content(
        &self,
        got: GetResult,
        name: &str,
        bytes: u64,
    ) -> Result<Bytes, ObjectsError> {
        let of = |error| ObjectsError::of_store(&self.url, name, &error);
        let mut content = BytesMut::with_capacity(usize::try_from(bytes).unwrap_or(0));
        let mut pieces = got.into_stream();
        while let Some(piece) = pieces.try_next().await.map_err(of)? {
            if (content.len() + piece.len()) as u64 > bytes {
                return Err(self.changed(name));
            }
            content.extend_from_slice(&piece);
        }
        if content.len() as u64 == bytes { Ok(content.freeze()) } else { Err(self.changed(name)) }
    }

    pub(crate) fn changed(&self, name: &str) -> ObjectsError {
        ObjectsError::Changed { url: self.url.clone(), name: name.to_owned() }
    }

    pub(crate) async fn listed(&self, below: &str) -> Result<Vec<Object>, ObjectsError> {
        let prefix = self.location(below)?;
        let mut found = Vec::new();
        let mut listing = self.store.list(Some(&prefix));
        let of = |error| ObjectsError::of_store(&self.url, below, &error);
        while let Some(meta) = listing.try_next().await.map_err(of)? {
            let Some(name) = self.name_of(&meta.location) else { continue };
            if found.len() == OBJECTS_MAX {
                let limit = format!("{OBJECTS_MAX} objects");
                return Err(self.limit(format!("the number of objects below {below:?}"), limit));
            }
            found.push(Object::new(name, &meta));
        }
        found.sort();
        let found = without_markers(found);
        match found.iter().find(|object| !can_be_a_file(&object.name)) {
            Some(bad) => Err(ObjectsError::Name { url: self.url.clone(), name: bad.name.clone() }),
            None => Ok(found),
        }
    }

    /// The store's path of an object of this folder.
    pub(crate) fn location(&self, name: &str) -> Result<Path, ObjectsError> {
        let below = Path::parse(name)
            .map_err(|_| ObjectsError::Name { url: self.url.clone(), name: name.to_owned() })?;
        Ok(self.prefix.parts().chain(below.parts()).collect())
    }

    /// The name of an object below this folder.
    fn name_of(&self, location: &Path) -> Option<String> {
        let rest: Vec<String> =
            location.prefix_match(&self.prefix)?.map(|part| part.as_ref().to_owned()).collect();
        (!rest.is_empty()).then(|| rest.join("/"))
    }

    pub(crate) fn limit(&self, what: String, limit: String) -> ObjectsError {
        ObjectsError::Limit { url: self.url.clone(), what, limit }
    }

    pub(crate) fn run<T>(
        &self,
        requests: impl Future<Output = Result<T, ObjectsError>>,
    ) -> Result<T, ObjectsError> {
        runtime::run(requests).map_err(|error| ObjectsError::Settings {
            url: self.url.clone(),
            reason: format!("no threads for requests: {error}"),
        })?
    }
}

/// True if a variable of the environment has this setting.
fn is_in_environment(key: AmazonS3ConfigKey) -> bool {
    let mut names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.any(|name| name.to_ascii_lowercase().parse().is_ok_and(|named: AmazonS3ConfigKey| named == key))
}

/// The bucket and the folder of an address.
fn parts(url: &str) -> Result<(&str, Path), ObjectsError> {
    let refuse = |reason: &str| ObjectsError::Url { url: url.to_owned(), reason: reason.to_owned() };
    let rest = url.strip_prefix(SCHEME).ok_or_else(|| refuse("its scheme is not s3"))?;
    let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if bucket.is_empty() || !bucket.chars().all(fits) {
        return Err(refuse("it names no bucket"));
    }
    let prefix = Path::parse(folder.trim_end_matches('/')).map_err(|error| refuse(&error.to_string()))?;
    Ok((bucket, prefix))
}

/// Leaves out the empty objects by which some programs mark folders.
fn without_markers(objects: Vec<Object>) -> Vec<Object> {
    let parents: BTreeSet<String> = objects
        .iter()
        .flat_map(|object| {
            object.name.match_indices('/').map(|(end, _)| object.name[..end].to_owned()).collect::<Vec<_>>()
        })
        .collect();
    objects.into_iter().filter(|object| object.bytes > 0 || !parents.contains(&object.name)).collect()
}

/// True if no part of the name leads out of a directory or is too long for a file system.
fn can_be_a_file(name: &str) -> bool {
    name.split('/').all(|part| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part.len() <= NAME_BYTES_MAX
            && !part.contains(['\0', '\\'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_bucket_and_a_folder() {
        let of = |url| parts(url).map(|(bucket, folder)| (bucket, folder.to_string()));
        assert_eq!(of("s3://docs").unwrap(), ("docs", String::new()));
        assert_eq!(of("s3://docs/a/b/").unwrap(), ("docs", "a/b".to_owned()));
        for (bad, word) in [
            ("gs://docs/a", "not s3"),
            ("s3:///a", "no bucket"),
            ("s3://do cs/a", "no bucket"),
            ("s3://docs/a/../b", ".."),
        ] {
            let refused = Folder::check(bad).unwrap_err().to_string();
            assert!(refused.contains(word) && refused.contains("s3://BUCKET/FOLDER"), "{bad}: {refused}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_no_files() {
        for good in ["a", "a/b.json", "…/ü"] {
            assert!(can_be_a_file(good), "{good}");
        }
        for bad in ["../a", "a/../../b", "a//b", "/a", "a\\b", "a\0", &"x".repeat(256)] {
            assert!(!can_be_a_file(bad), "{bad}");
        }
    }

    #[test]
    fn markers_of_folders_are_left_out_and_empty_files_are_not() {
        let object = |name: &str, bytes| Object { name: name.to_owned(), bytes, tag: String::new() };
        let all = vec![object("a", 0), object("a/b", 0), object("a/b/c", 5), object("a/empty", 0)];
        let names: Vec<String> = without_markers(all).into_iter().map(|object| object.name).collect();
        assert_eq!(names, ["a/b/c", "a/empty"]);
    }
}
