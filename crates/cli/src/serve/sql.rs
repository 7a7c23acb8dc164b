//! `sql`: tables, which the engine of the program that runs this one reads ([`crate::sql`]).

use super::folders::{Folder, read};
use super::kind::Offer;
use super::words::Words;
use super::{Opened, is_in_store, stored};
use crate::sql::{SERVICE, Tables};
use std::sync::Arc;
use treefold::{CallError, PartitionSet};

pub(super) struct Kind;

impl super::kind::Kind for Kind {
    fn name(&self) -> &'static str {
        SERVICE
    }

    fn keys(&self) -> &'static [&'static str] {
        &["name", "memory", "threads", "data", "cache"]
    }

    fn form(&self) -> &'static str {
        "sql with a folder and partitions, and optionally a name, memory and threads, as in \
         sql=DIR:partitions=0-3/16:memory=4GB:threads=2"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        let folder = words.subject()?;
        if is_in_store(folder) {
            return stored::sql(words, folder);
        }
        if words.of("data").or(words.of("cache")).is_some() {
            return Err(words.refuse("data and cache with tables in an object store only"));
        }
        Ok(Arc::new(tables(words, folder)?))
    }
}

/// Reads the settings of tables.
pub(super) fn tables(words: &Words<'_>, folder: &str) -> Result<Tables, CallError> {
    let threads = words.number("threads", "a number of threads")?;
    if threads == Some(0) {
        return Err(CallError::bad_field("threads", 0, "at least 1"));
    }
    Ok(Tables {
        folder: folder.into(),
        name: words.service_name()?.unwrap_or_else(|| SERVICE.to_owned()),
        memory: words.of("memory").map(str::to_owned),
        threads,
        is_dealt: false,
    })
}

impl Offer for Tables {
    fn name(&self) -> &str {
        &self.name
    }

    fn may_block(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn folders(&self, _: u32) -> Vec<Folder> {
        vec![read(&self.folder)]
    }

    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String> {
        self.service(partitions, total).map(Opened::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_folder_a_name_and_bounds() {
        let read = |text: &str| {
            let words = Words::split(text, &Kind).unwrap();
            tables(&words, words.subject().unwrap()).unwrap()
        };
        let plain = Tables {
            folder: "/srv/{partition}".into(),
            name: SERVICE.to_owned(),
            memory: None,
            threads: None,
            is_dealt: false,
        };
        assert_eq!(read("sql=/srv/{partition}:partitions=0-3/16"), plain);
        let bounded =
            Tables { memory: Some("4GB".to_owned()), threads: Some(2), name: "sales".to_owned(), ..plain };
        let text = "sql=/srv/{partition}:partitions=0/1:memory=4GB:threads=2:name=sales";
        assert_eq!(read(text), bounded);
    }
}
