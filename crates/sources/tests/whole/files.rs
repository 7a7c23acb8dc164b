//! Replays of files: pace, pipes, and errors.

use crate::recorder::{feeder, line, until};
use std::io::Write;
use std::sync::Arc;
use treefold_mirror::MirrorLimits;
use treefold_sources::SourceLimits;
use treefold_sources::recording::{Format, Recording, RecordingOptions};
use treefold_sources::replay::{Pace, ReplayError, replay};

pub fn recording(reader: impl std::io::Read + Send + 'static, format: Format) -> Recording {
    let options = RecordingOptions {
        name: "trace".to_owned(),
        stream: None,
        per_second: f64::INFINITY,
        types: Default::default(),
        limits: MirrorLimits::DEFAULT,
        line_bytes_max: 16 << 20,
    };
    Recording::new(Box::new(reader), format, options)
}

#[tokio::test]
async fn event_of_a_pipe_is_offered_before_the_next_one_is_written() {
    let (feeder, _stopper) = feeder(SourceLimits::DEFAULT);
    let intake = Arc::clone(&feeder.intake);
    let (read, mut write) = std::io::pipe().unwrap();
    let running = tokio::spawn(async move {
        replay(&feeder, recording(read, Format::JsonLines), Pace::Unpaced, |_, _| {}).await
    });
    for number in 1..=3 {
        writeln!(write, "{}", line("faa", number)).unwrap();
        until("it is taken", || intake.numbers("faa").last() == Some(&number)).await;
    }
    drop(write);
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn recorded_pace_can_be_scaled() {
    let text: String = (1..=3)
        .map(|number| {
            line("faa", number).replace("{\"stream", &format!("{{\"at_ms\":{},\"stream", number * 10_000))
                + "\n"
        })
        .collect();
    let (feeder, _stopper) = feeder(SourceLimits::DEFAULT);
    let began = tokio::time::Instant::now();
    let recording = recording(std::io::Cursor::new(text), Format::JsonLines);
    replay(&feeder, recording, Pace::Recorded(10.0), |_, _| {}).await.unwrap();
    // The clock is the test's own: it moves only by the waits of the replay.
    assert_eq!(began.elapsed().as_millis() / 10, 300);
    assert_eq!(feeder.intake.numbers("faa"), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn recorded_pace_passes_over_events_that_the_origin_had_already() {
    let text = |numbers: std::ops::RangeInclusive<u64>| -> String {
        let timed = |number: u64| {
            line("faa", number).replace("{\"stream", &format!("{{\"at_ms\":{},\"stream", number * 10_000))
                + "\n"
        };
        numbers.map(timed).collect()
    };
    let (feeder, _stopper) = feeder(SourceLimits::DEFAULT);
    let first = recording(std::io::Cursor::new(text(1..=3)), Format::JsonLines);
    replay(&feeder, first, Pace::Unpaced, |_, _| {}).await.unwrap();
    let began = tokio::time::Instant::now();
    let again = recording(std::io::Cursor::new(text(1..=5)), Format::JsonLines);
    let mut repeated = Vec::new();
    replay(&feeder, again, Pace::Recorded(1.0), |_, one| repeated.push(one.number)).await.unwrap();
    assert_eq!((feeder.intake.numbers("faa"), repeated), (vec![1, 2, 3, 4, 5], vec![1, 2, 3]));
    // The first event is due after ten seconds. Events 2 to 4 follow at once, and event 5 ten seconds later.
    assert_eq!(began.elapsed().as_secs(), 20);
}

#[tokio::test]
async fn events_before_an_invalid_line_are_offered_and_refused_ones_are_reported() {
    let text = format!("{}\n{}\ngarbage\n", line("faa", 1), line("faa", 3));
    let (feeder, _stopper) = feeder(SourceLimits::DEFAULT);
    let mut refused = Vec::new();
    let recording = recording(std::io::Cursor::new(text), Format::JsonLines);
    let replayed =
        replay(&feeder, recording, Pace::Unpaced, |place, one| refused.push((place, one.number))).await;
    let Err(ReplayError::Recording(error)) = replayed else { panic!("{replayed:?}") };
    assert_eq!((error.line, error.column), (3, Some(1)));
    assert_eq!((feeder.intake.numbers("faa"), refused), (vec![1], vec![(2, 3)]));
}
