//! Recovery, writers that end each other, trimming, and a server that is killed.

use crate::broker::Broker;
use async_nats::jetstream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use treefold_journal::{Epoch, Journal, JournalError};
use treefold_nats::{Server, StreamJournal, StreamOptions};

fn options(broker: &Broker) -> StreamOptions {
    let server = Server { url: broker.url(), credentials: None };
    StreamOptions { server, stream: "JOURNAL".to_owned(), replicas: 1 }
}

/// The server listens before JetStream is ready.
fn open(broker: &Broker) -> StreamJournal {
    let mut looks = 0;
    loop {
        match StreamJournal::open(options(broker)) {
            Ok(journal) => return journal,
            Err(error) => {
                looks += 1;
                assert!(looks < 500, "{error}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn payload(position: u64) -> Vec<u8> {
    format!("event {position} {}", "x".repeat(position as usize % 40)).into_bytes()
}

fn append(journal: &mut StreamJournal, positions: std::ops::RangeInclusive<u64>) {
    for position in positions {
        journal.append(position, position, &payload(position)).unwrap();
    }
}

fn stored(journal: &StreamJournal, after: u64) -> Vec<u64> {
    let mut found = Vec::new();
    let read = journal.read_after(after, &mut |stored| {
        assert_eq!(stored.payload, payload(stored.last));
        found.push(stored.last);
    });
    read.unwrap();
    found
}

fn all(to: u64) -> Vec<u64> {
    (1..=to).collect()
}

/// Flushes until the server answers.
fn flush(journal: &mut StreamJournal) {
    let mut looks = 0;
    while let Err(error) = journal.flush() {
        looks += 1;
        assert!(error.is_temporary() && looks < 1_000, "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn records_and_epochs_are_there_after_opening_again() {
    let Some(broker) = Broker::start().await else { return };
    let mut journal = open(&broker);
    assert_eq!((journal.epochs(), journal.first(), journal.last()), (&[][..], 1, 0));
    assert!(journal.append(2, 2, b"").is_err());
    journal.begin_epoch(1).unwrap();
    append(&mut journal, 1..=1_000);
    assert_eq!((journal.last(), journal.durable()), (1_000, 0));
    assert_eq!(journal.flush().unwrap(), 1_000);
    drop(journal);
    let mut journal = open(&broker);
    assert_eq!((journal.first(), journal.last(), journal.durable()), (1, 1_000, 1_000));
    assert!(matches!(journal.begin_epoch(1), Err(JournalError::Epoch { known: 1, given: 1 })));
    assert!(matches!(journal.begin_after(5_000), Err(JournalError::Order { expected: 1_001, .. })));
    journal.begin_epoch(4).unwrap();
    assert_eq!(stored(&journal, 0), all(1_000));
    assert_eq!(stored(&journal, 998), [999, 1_000]);
    append(&mut journal, 1_001..=1_010);
    journal.flush().unwrap();
    drop(journal);
    let journal = open(&broker);
    assert_eq!(journal.epochs(), [Epoch { number: 1, after: 0 }, Epoch { number: 4, after: 1_000 }]);
    assert_eq!(stored(&journal, 0), all(1_010));
}

#[tokio::test]
async fn newer_writer_ends_an_older_one_that_is_alive() {
    let Some(broker) = Broker::start().await else { return };
    let mut older = open(&broker);
    older.begin_epoch(1).unwrap();
    append(&mut older, 1..=10);
    older.flush().unwrap();
    let mut newer = open(&broker);
    // The older one writes after the newer one has read the journal.
    append(&mut older, 11..=20);
    older.flush().unwrap();
    newer.begin_epoch(2).unwrap();
    assert_eq!(newer.last(), 20, "the newer one has all that was confirmed");
    append(&mut older, 21..=21);
    let ended = older.flush().unwrap_err();
    assert!(matches!(ended, JournalError::Fenced { epoch: 2 }), "{ended}");
    assert!(matches!(older.append(22, 22, b""), Err(JournalError::Fenced { epoch: 2 })), "it stays so");
    append(&mut newer, 21..=30);
    newer.flush().unwrap();
    assert_eq!(stored(&newer, 0), all(30));
    assert_eq!(open(&broker).epochs(), [Epoch { number: 1, after: 0 }, Epoch { number: 2, after: 20 }]);
}

#[tokio::test]
async fn busy_writer_can_not_keep_a_newer_one_out_and_loses_nothing_that_was_confirmed() {
    let Some(broker) = Broker::start().await else { return };
    let mut older = open(&broker);
    older.begin_epoch(1).unwrap();
    let writing = std::thread::spawn(move || {
        loop {
            let from = older.last() + 1;
            append(&mut older, from..=from + 50);
            if let Err(error) = older.flush() {
                return (older.durable(), error);
            }
        }
    });
    let mut newer = open(&broker);
    while newer.last() == 0 {
        newer = open(&broker);
    }
    newer.begin_epoch(2).unwrap();
    let after = newer.last();
    let (durable, error) = writing.join().unwrap();
    assert!(matches!(error, JournalError::Fenced { epoch: 2 }), "{error}");
    assert!(durable <= after && after > 0, "{durable} confirmed, {after} read");
    append(&mut newer, after + 1..=after + 100);
    newer.flush().unwrap();
    assert_eq!(stored(&newer, 0), all(after + 100));
}

#[tokio::test]
async fn of_two_writers_that_begin_one_epoch_one_is_told_so() {
    let Some(broker) = Broker::start().await else { return };
    let (mut one, mut other) = (open(&broker), open(&broker));
    one.begin_epoch(1).unwrap();
    assert!(matches!(other.begin_epoch(1), Err(JournalError::Epoch { known: 1, given: 1 })));
    append(&mut one, 1..=1);
    one.flush().unwrap();
}

#[tokio::test]
async fn killed_server_loses_and_repeats_no_record() {
    const RECORDS: u64 = 20_000;
    let Some(mut broker) = Broker::start().await else { return };
    let mut journal = open(&broker);
    journal.begin_epoch(1).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    let writing = std::thread::spawn(move || {
        while journal.last() < RECORDS {
            let from = journal.last() + 1;
            append(&mut journal, from..=(from + 99).min(RECORDS));
            flush(&mut journal);
        }
        told.store(true, Ordering::Relaxed);
        journal
    });
    let mut kills = 0;
    while !is_over.load(Ordering::Relaxed) && kills < 5 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        broker.restart().await;
        kills += 1;
    }
    let journal = writing.join().unwrap();
    assert!(kills > 0);
    assert_eq!((journal.durable(), stored(&journal, 0)), (RECORDS, all(RECORDS)));
    drop(journal);
    assert_eq!(stored(&open(&broker), 0), all(RECORDS));
}

#[tokio::test]
async fn trimmed_records_are_removed_and_the_last_one_stays() {
    let Some(broker) = Broker::start().await else { return };
    let mut journal = open(&broker);
    journal.begin_epoch(1).unwrap();
    let long = vec![7; 100_000];
    for position in 1..=100 {
        journal.append(position, position, &long).unwrap();
    }
    journal.flush().unwrap();
    journal.trim(50).unwrap();
    let first = journal.first();
    assert!((30..=51).contains(&first), "{first}");
    let mut found = Vec::new();
    journal.read_after(60, &mut |stored| found.push(stored.last)).unwrap();
    assert_eq!(found, (61..=100).collect::<Vec<_>>());
    journal.trim(100).unwrap();
    assert!(journal.first() <= 100);
    drop(journal);
    let mut journal = open(&broker);
    assert_eq!((journal.last(), journal.epochs().len()), (100, 1), "the epochs stay too");
    assert!(journal.first() > 51, "{}", journal.first());
    journal.begin_epoch(2).unwrap();
    journal.append(101, 101, b"next").unwrap();
    assert_eq!(journal.flush().unwrap(), 101);
}

#[tokio::test]
async fn record_above_the_server_s_limit_is_kept_in_parts() {
    let Some(broker) = Broker::start().await else { return };
    let mut journal = open(&broker);
    journal.begin_epoch(1).unwrap();
    let long: Vec<u8> = (0..3_500_000_u32).map(|at| (at % 251) as u8).collect();
    journal.append(1, 5, b"short").unwrap();
    journal.append(6, 9, &long).unwrap();
    journal.append(10, 10, b"short").unwrap();
    assert_eq!(journal.flush().unwrap(), 10);
    drop(journal);
    let journal = open(&broker);
    let mut found = Vec::new();
    journal.read_after(0, &mut |stored| found.push(stored)).unwrap();
    assert_eq!(found.iter().map(|one| (one.first, one.last)).collect::<Vec<_>>(), [(1, 5), (6, 9), (10, 10)]);
    assert!(found[1].payload == long);
}

#[tokio::test]
async fn stream_of_something_else_is_refused() {
    let Some(broker) = Broker::start().await else { return };
    drop(open(&broker));
    let context = jetstream::new(async_nats::connect(broker.url()).await.unwrap());
    for (name, config) in [
        ("ORDERS", jetstream::stream::Config { subjects: vec!["orders".to_owned()], ..Default::default() }),
        (
            "AGED",
            jetstream::stream::Config {
                subjects: vec![
                    "treefold.journal.AGED.epochs".to_owned(),
                    "treefold.journal.AGED.records.*".to_owned(),
                ],
                max_age: Duration::from_secs(60),
                ..Default::default()
            },
        ),
    ] {
        context.create_stream(jetstream::stream::Config { name: name.to_owned(), ..config }).await.unwrap();
        let refused = StreamJournal::open(StreamOptions { stream: name.to_owned(), ..options(&broker) });
        assert!(matches!(refused, Err(JournalError::Remote { .. })), "{name}");
    }
}
