//! The demo without a terminal: a scripted scenario that prints lines, and checks at the end that nothing was lost.

use super::board::{Board, Effect};
use super::live::Show;
use super::news::{News, Order, Part, Sent};
use super::stage::Stage;
use super::tally::StormFigures;
use super::values::{Truth, Values};
use super::{FEED, MIRRORS};
use crate::endings::Endings;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use treefold::{Client, PartitionSet};
use treefold_flights::Options;

/// Readers of the scripted storm.
const STORM_READERS: usize = 50;
/// Bound on each wait for a state that must come.
const WITHIN: Duration = Duration::from_secs(60);
/// Time that a mirror has to give its values.
const VALUES_WITHIN: Duration = Duration::from_secs(5);

/// An act of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Kill the mirror that serves the board.
    KillMirror,
    StartMirror,
    KillOrigin,
    Storm,
    /// Take no further events.
    End,
}

/// The acts with their times, as shares of the whole.
const SCENARIO: [(f64, Act); 5] = [
    (0.2, Act::KillMirror),
    (0.4, Act::StartMirror),
    (0.5, Act::KillOrigin),
    (0.75, Act::Storm),
    (1.0, Act::End),
];

/// A line of the diary in JSON.
#[derive(Serialize)]
struct Line<'a> {
    at_ms: u64,
    happened: &'a str,
}

/// The result.
#[derive(Debug, Serialize)]
struct Summary {
    events: u64,
    repeated: u64,
    mirrored: u64,
    kills: u32,
    epochs: u32,
    resumed: u64,
    snapshots: u64,
    /// Events that the board missed, or got twice.
    gaps: u64,
    delay_p50_ms: u64,
    delay_p99_ms: u64,
    storm: Option<StormSummary>,
    /// The board and all mirrors have the last values that the source has sent.
    last_values_equal: bool,
    /// Flights for which they have not.
    differences: Vec<String>,
}

#[derive(Debug, Serialize)]
struct StormSummary {
    readers: usize,
    joined: usize,
    joined_ms: u64,
    /// The board's delay before, and while the readers were there; null if there was no event.
    delay_p99_before_ms: Option<u64>,
    delay_p99_ms: Option<u64>,
}

/// Runs the scenario for a time. Fails if an event was lost.
pub(super) async fn run(flights: Options, length: Duration, format: Format) -> Result<Verdict, Failure> {
    let mut endings = Endings::catch()?;
    let played = tokio::select! {
        played = play(flights, length, format) => played,
        // All processes end with the dropped play.
        () = endings.next() => return Err(Failure::failed("stopped before the scenario was over")),
    };
    let summary = played?;
    match format {
        Format::Json => print_json(&serde_json::json!({ "summary": summary })),
        Format::Text => print(summary.text()),
    }
    if summary.gaps == 0 && summary.last_values_equal {
        Ok(Verdict::Full)
    } else {
        Err(Failure::Told("the board or a mirror lacks events".to_owned()))
    }
}

async fn play(flights: Options, length: Duration, format: Format) -> Result<Summary, Failure> {
    let mut show = Show::start(flights).await?;
    let mut play = Play { board: Board::new(Instant::now()), told: 0, format, victim: 0 };
    play.until(&mut show.news, "the board has a snapshot", |board| board.reader.joined_in.is_some()).await?;
    let began = Instant::now();
    for (share, act) in SCENARIO {
        play.until_time(&mut show.news, began + length.mul_f64(share)).await;
        play.act(&show, act).await?;
    }
    play.until(&mut show.news, "the storm is over", |board| !board.reader.tally.is_stormy()).await?;
    // Events that a rule holds back are acknowledged when the origin ends. It then has to have all events.
    play.until(&mut show.news, "the origin has all events", |board| {
        let offered = board.origin.report.as_ref().map_or(0, |report| report.offered);
        board.sent.is_over && offered >= board.sent.written
    })
    .await?;
    let stage = play.finish_origin(&mut show).await?;
    let compared = play.compare(&mut show).await;
    show.end_reader();
    stage.end().await;
    let (sent, differences) = compared?;
    Ok(play.summary(sent, differences))
}

/// The scenario while it is played.
struct Play {
    board: Board,
    /// Lines of the diary that were printed.
    told: usize,
    format: Format,
    /// The mirror that was killed.
    victim: usize,
}

impl Play {
    async fn act(&mut self, show: &Show, act: Act) -> Result<(), Failure> {
        let effect = match act {
            Act::KillMirror => {
                self.victim = self.board.reader.mirror.map_or(0, |mirror| mirror as usize);
                Effect::Order(Order::Kill(Part::Mirror(self.victim)))
            }
            Act::StartMirror => Effect::Order(Order::Start(Part::Mirror(self.victim))),
            Act::KillOrigin => Effect::Order(Order::Kill(Part::Origin)),
            Act::Storm => Effect::Storm(STORM_READERS),
            Act::End => {
                show.end_source();
                Effect::Nothing
            }
        };
        show.carry_out(effect).await;
        Ok(())
    }

    fn observe(&mut self, news: News) {
        self.board.observe(news, Instant::now());
        // The diary keeps its last lines; each piece of news adds one at most.
        while let Some((at, line)) = self.board.diary.pop_front() {
            self.told += 1;
            match self.format {
                Format::Json => print_json(&Line { at_ms: at.as_millis() as u64, happened: &line }),
                Format::Text => print(format_args!("{:>6.1} s  {line}", at.as_secs_f64())),
            }
        }
    }

    async fn until_time(&mut self, news: &mut mpsc::Receiver<News>, time: Instant) {
        loop {
            tokio::select! {
                Some(news) = news.recv() => self.observe(news),
                () = sleep_until(time.into()) => return,
            }
        }
    }

    /// Waits until the board is in a state.
    async fn until(
        &mut self,
        news: &mut mpsc::Receiver<News>,
        what: &str,
        mut is_so: impl FnMut(&Board) -> bool,
    ) -> Result<(), Failure> {
        let waiting = async {
            while !is_so(&self.board) {
                match news.recv().await {
                    Some(news) => self.observe(news),
                    None => return,
                }
            }
        };
        timeout(WITHIN, waiting)
            .await
            .map_err(|_| Failure::failed(format!("after {WITHIN:?} still not: {what}")))
    }

    /// Waits until all events of the source are acknowledged.
    async fn ended_source(&mut self, show: &mut Show) -> Result<(Truth, Sent), Failure> {
        let give_up_at = Instant::now() + WITHIN;
        loop {
            tokio::select! {
                ended = &mut show.source => {
                    return ended.map_err(|error| Failure::failed(format!("the source has ended: {error}")));
                }
                Some(news) = show.news.recv() => self.observe(news),
                () = sleep_until(give_up_at.into()) => {
                    let left = self.board.sent.unacknowledged;
                    return Err(Failure::failed(format!("{left} events were not acknowledged within {WITHIN:?}")));
                }
            }
        }
    }

    /// Has the origin send what it holds back, and end when all mirrors have everything.
    async fn finish_origin(&mut self, show: &mut Show) -> Result<Stage, Failure> {
        let (mut stage, meanwhile) = show.stop_orders().await?;
        meanwhile.into_iter().for_each(|news| self.observe(news));
        let finished = {
            let mut finishing = std::pin::pin!(stage.finish_origin(WITHIN));
            loop {
                tokio::select! {
                    finished = &mut finishing => break finished,
                    // Its reports need room.
                    Some(news) = show.news.recv() => self.observe(news),
                }
            }
        };
        if finished {
            return Ok(stage);
        }
        stage.end().await;
        Err(Failure::failed("the mirrors did not confirm all events"))
    }

    /// Waits until the board has all events, and compares the values of the board and of all mirrors with those of the
    /// source. Returns the differences.
    async fn compare(&mut self, show: &mut Show) -> Result<(Sent, Vec<String>), Failure> {
        let (truth, sent) = self.ended_source(show).await?;
        let mut values = Vec::new();
        for mirror in 0..MIRRORS as u32 {
            values.push(found(&show.client, mirror, truth.keys()).await?);
        }
        let furthest = values.iter().map(|found| found.position).max().unwrap_or(0);
        self.until(&mut show.news, "the board has all events", |board| {
            board.reader.tally.cut.is_some_and(|cut| cut.position >= furthest)
        })
        .await?;
        let named =
            |name: String, keys: Vec<String>| keys.into_iter().map(move |key| format!("{key} at {name}"));
        let board = &self.board.flights;
        let differences = truth.differences(|key| board.get(key).map(|flight| &flight.values), board.len());
        let mut all: Vec<String> = named("the board".to_owned(), differences).collect();
        for (mirror, found) in values.iter().enumerate() {
            let of = |key: &str| found.rows.iter().find(|row| row.key == key).map(|row| &row.fields);
            all.extend(named(format!("mirror {mirror}"), truth.differences(of, found.rows.len())));
        }
        Ok((sent, all))
    }

    fn summary(&self, sent: Sent, differences: Vec<String>) -> Summary {
        let tally = &self.board.reader.tally;
        let ms = |time: Duration| time.as_millis() as u64;
        let (half, most) = tally.delay().unwrap_or_default();
        let storm = |storm: StormFigures| {
            let (joined, all) = match storm.now {
                super::news::Storm::Ended { joined, all, .. } => (joined, all),
                _ => (0, Duration::ZERO),
            };
            StormSummary {
                readers: storm.readers,
                joined,
                joined_ms: ms(all),
                delay_p99_before_ms: storm.before.map(ms),
                delay_p99_ms: storm.during.map(ms),
            }
        };
        Summary {
            events: sent.generated,
            repeated: sent.repeated,
            mirrored: tally.cut.map_or(0, |cut| cut.position),
            kills: self.board.kills(),
            epochs: tally.cut.map_or(0, |cut| cut.epoch),
            resumed: tally.resumed,
            snapshots: tally.snapshots,
            gaps: tally.gaps,
            delay_p50_ms: ms(half),
            delay_p99_ms: ms(most),
            storm: tally.last_storm().map(storm),
            last_values_equal: differences.is_empty(),
            differences,
        }
    }
}

impl Summary {
    fn text(&self) -> String {
        let Self { events, repeated, mirrored, kills, epochs, resumed, gaps, .. } = self;
        let equal = if self.last_values_equal {
            "the board and all mirrors have the last values of the source".to_owned()
        } else {
            format!("values differ: {}", self.differences.join(", "))
        };
        format!(
            "{events} events sent, {repeated} of them again; {mirrored} mirrored in {epochs} epochs; {kills} kills\n\
             the board resumed {resumed} times, with {gaps} gaps; delay {} ms, p99 {} ms\n{equal}",
            self.delay_p50_ms, self.delay_p99_ms
        )
    }
}

/// The values of keys at one mirror.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Found {
    position: u64,
    rows: Vec<FoundRow>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct FoundRow {
    key: String,
    fields: Values,
}

#[derive(Serialize, Deserialize)]
struct Wanted {
    keys: Vec<String>,
}

async fn found(client: &Client, mirror: u32, keys: Vec<String>) -> Result<Found, Failure> {
    let called = client
        .call::<Found>(&format!("{FEED}/get"), &Wanted { keys })
        .partitions(PartitionSet::from_iter([mirror]))
        .deadline(VALUES_WITHIN);
    let reply = called.await.map_err(crate::commands::failure_of)?;
    reply.value.ok_or_else(|| Failure::failed(format!("mirror {mirror} gives no values")))
}
