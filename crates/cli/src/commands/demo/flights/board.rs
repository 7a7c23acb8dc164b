//! The state of the demo: takes news and actions, and is drawn. It has no clock and no terminal; the caller passes the
//! time, and carries out the order that an action gives.

use super::MIRRORS;
use super::news::{Life, News, Order, Part, Read, Sent, Storm};
use super::tally::Tally;
use super::values::{Phase, Values};
use crate::commands::mirror::report::OriginReport;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use treefold_feed::MirrorStatus;
use treefold_mirror::rules::Mode;

/// Lines of the diary that are kept.
const DIARY_MAX: usize = 50;
/// Reports over which rates are measured: two seconds.
const REPORTS_MAX: usize = 10;

/// A flight, as the board shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Flight {
    pub(super) values: Values,
    /// Time of the last change that the board has seen; `None` for values of a snapshot.
    pub(super) changed_at: Option<Instant>,
    pub(super) phase_changed_at: Option<Instant>,
}

/// The origin's line.
#[derive(Clone, Debug, Default)]
pub(super) struct OriginLine {
    pub(super) life: Life,
    pub(super) report: Option<OriginReport>,
    reports: VecDeque<(Instant, u64, u64)>,
    killed_at: Option<Instant>,
    pub(super) kills: u32,
}

/// A mirror's line.
#[derive(Clone, Debug, Default)]
pub(super) struct MirrorLine {
    pub(super) life: Life,
    pub(super) status: Option<MirrorStatus>,
    pub(super) url: Option<String>,
    pub(super) kills: u32,
}

/// The reader's line.
#[derive(Clone, Debug, Default)]
pub(super) struct ReaderLine {
    pub(super) mirror: Option<u32>,
    pub(super) joined_in: Option<Duration>,
    /// Rows of a snapshot that is not complete.
    loading: Option<BTreeMap<String, Flight>>,
    pub(super) tally: Tally,
}

/// The rows and panels that the user sees, and has chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct Screenful {
    pub(super) selected: usize,
    pub(super) scrolled: usize,
    pub(super) is_help: bool,
}

/// The whole board.
#[derive(Clone, Debug)]
pub(super) struct Board {
    pub(super) flights: BTreeMap<String, Flight>,
    pub(super) origin: OriginLine,
    pub(super) mirrors: [MirrorLine; MIRRORS],
    pub(super) reader: ReaderLine,
    pub(super) sent: Sent,
    pub(super) chosen: Screenful,
    /// Events of the demo, with their time since the start, the latest last.
    pub(super) diary: VecDeque<(Duration, String)>,
    began: Instant,
}

/// An action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Kill a process, or start it again.
    Toggle(Part),
    /// Stop the selected process, or let it go on.
    Pause,
    Storm,
    /// Switch the rules to their other mode.
    Mode,
    /// Select the next process.
    Select,
    /// Scroll the flights by so many rows.
    Scroll(isize),
    Help,
    Redraw,
}

/// The effect of an action outside the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Order(Order),
    /// Begin a storm of so many readers.
    Storm(usize),
    /// Switch the rules to this mode.
    Mode(Mode),
    End,
}

/// Readers of a storm.
pub(super) const STORM_READERS: usize = 200;

impl Board {
    pub(super) fn new(began: Instant) -> Self {
        Self {
            flights: BTreeMap::new(),
            origin: OriginLine::default(),
            mirrors: Default::default(),
            reader: ReaderLine::default(),
            sent: Sent::default(),
            chosen: Screenful::default(),
            diary: VecDeque::new(),
            began,
        }
    }

    /// All processes, in the order in which they are selected.
    pub(super) fn parts() -> impl Iterator<Item = Part> {
        std::iter::once(Part::Origin).chain((0..MIRRORS).map(Part::Mirror))
    }

    pub(super) fn selected(&self) -> Part {
        Self::parts().nth(self.chosen.selected).unwrap_or(Part::Origin)
    }

    pub(super) fn life(&self, part: Part) -> Life {
        match part {
            Part::Origin => self.origin.life,
            Part::Mirror(number) => self.mirrors[number].life,
        }
    }

    /// Kills of all processes so far.
    pub(super) fn kills(&self) -> u32 {
        self.origin.kills + self.mirrors.iter().map(|mirror| mirror.kills).sum::<u32>()
    }

    /// The furthest position that the origin or a mirror has told.
    pub(super) fn furthest(&self) -> u64 {
        let told =
            self.mirrors.iter().filter_map(|mirror| mirror.status.as_ref()).map(|status| status.position);
        told.chain(self.origin.report.as_ref().map(|report| report.position)).max().unwrap_or(0)
    }

    /// Takes an action.
    pub(super) fn apply(&mut self, action: Action) -> Effect {
        match action {
            Action::Quit => return Effect::End,
            Action::Toggle(part) => {
                let order = match self.life(part) {
                    Life::Dead => Order::Start(part),
                    Life::Starting if part != Part::Origin => return Effect::Nothing,
                    _ => Order::Kill(part),
                };
                return Effect::Order(order);
            }
            Action::Pause => {
                let part = self.selected();
                match self.life(part) {
                    Life::Alive => return Effect::Order(Order::Pause(part, true)),
                    Life::Stopped => return Effect::Order(Order::Pause(part, false)),
                    Life::Starting | Life::Dead => {}
                }
            }
            Action::Storm if !self.reader.tally.is_stormy() => return Effect::Storm(STORM_READERS),
            Action::Mode if self.origin.life == Life::Alive => {
                let mode = self.origin.report.as_ref().map_or(Mode::Normal, |report| report.mode);
                return Effect::Mode(if mode == Mode::Normal { Mode::Loaded } else { Mode::Normal });
            }
            Action::Storm | Action::Mode | Action::Redraw => {}
            Action::Select => self.chosen.selected = (self.chosen.selected + 1) % Self::parts().count(),
            Action::Scroll(rows) => {
                let last = self.flights.len().saturating_sub(1);
                self.chosen.scrolled = self.chosen.scrolled.saturating_add_signed(rows).min(last);
            }
            Action::Help => self.chosen.is_help = !self.chosen.is_help,
        }
        Effect::Nothing
    }

    /// Takes news.
    pub(super) fn observe(&mut self, news: News, now: Instant) {
        match news {
            News::Life(part, life) => self.note_life(part, life, now),
            News::Url(mirror, url) => self.mirrors[mirror].url = Some(url),
            News::Origin(report) => self.note_report(report, now),
            News::Mirrors(statuses) => {
                for (number, mirror) in self.mirrors.iter_mut().enumerate() {
                    let status = statuses.iter().find(|status| status.mirror as usize == number);
                    mirror.status = status.cloned();
                }
            }
            News::Source(sent) => self.sent = sent,
            News::Read(read) => self.note_read(read, now),
            News::Storm(storm) => {
                self.reader.tally.storm(storm);
                if let Some(line) = storm_line(self, storm) {
                    self.write(now, line);
                }
            }
            News::Said(problem) => self.write(now, problem),
        }
    }

    fn note_life(&mut self, part: Part, life: Life, now: Instant) {
        let before = self.life(part);
        match part {
            Part::Origin => {
                self.origin.life = life;
                if life == Life::Dead {
                    self.origin.reports.clear();
                    self.origin.killed_at = Some(now);
                    self.origin.kills += 1;
                }
            }
            Part::Mirror(number) => {
                let mirror = &mut self.mirrors[number];
                mirror.life = life;
                if life == Life::Dead {
                    (mirror.status, mirror.url) = (None, None);
                    mirror.kills += 1;
                }
            }
        }
        let line = match (before, life) {
            (_, Life::Dead) => format!("{part} is dead"),
            (Life::Stopped, Life::Alive) => format!("{part} goes on"),
            (_, Life::Stopped) => format!("{part} stands still"),
            (Life::Starting, Life::Alive) if self.kills() > 0 => format!("{part} has started again"),
            _ => return,
        };
        self.write(now, line);
    }

    fn note_report(&mut self, report: OriginReport, now: Instant) {
        let origin = &mut self.origin;
        let is_successor = origin.report.as_ref().is_none_or(|last| report.epoch > last.epoch);
        if origin.life == Life::Dead || origin.killed_at.is_some() && !is_successor {
            // The killed origin had written this line.
            return;
        }
        if origin.reports.len() == REPORTS_MAX {
            origin.reports.pop_front();
        }
        origin.reports.push_back((now, report.offered, report.position));
        let returned = match origin.life {
            Life::Starting => origin.killed_at.take(),
            _ => None,
        };
        let (epoch, position) = (report.epoch, report.position);
        origin.report = Some(report);
        if origin.life == Life::Starting {
            origin.life = Life::Alive;
        }
        if let Some(killed_at) = returned {
            let away = now.saturating_duration_since(killed_at).as_secs_f64();
            self.write(
                now,
                format!("the origin is back after {away:.1} s: epoch {epoch} continues after {position}"),
            );
        }
    }

    fn note_read(&mut self, read: Read, now: Instant) {
        let reader = &mut self.reader;
        match read {
            Read::Begins(cut, because) => {
                reader.tally.begin(cut);
                reader.loading = Some(BTreeMap::new());
                if let Some(because) = because {
                    self.write(now, format!("the board gets a snapshot: {because}"));
                }
            }
            Read::Row(key, values, _) => {
                if let Some(loading) = &mut reader.loading {
                    loading.insert(key, Flight { values, ..Flight::default() });
                }
            }
            Read::Complete(mirror, after) => {
                (reader.mirror, reader.joined_in) = (Some(mirror), Some(after));
                if let Some(rows) = reader.loading.take() {
                    let count = rows.len();
                    self.flights = rows;
                    let ms = after.as_secs_f64() * 1e3;
                    self.write(
                        now,
                        format!(
                            "the board has a snapshot of {count} flights from mirror {mirror}, in {ms:.0} ms"
                        ),
                    );
                }
            }
            Read::Event(at, key, values, delay) => {
                reader.tally.take(at, delay, now);
                let flight = self.flights.entry(key).or_default();
                let before = flight.values.phase();
                flight.values.set(values);
                flight.changed_at = Some(now);
                if flight.values.phase() != before && before != Phase::Unknown {
                    flight.phase_changed_at = Some(now);
                }
            }
            Read::At(cut) => reader.tally.cut = Some(cut),
            Read::Moved(mirror, because, silent_for) => {
                reader.mirror = Some(mirror);
                reader.tally.resumed += 1;
                let ms = silent_for.as_secs_f64() * 1e3;
                self.write(
                    now,
                    format!(
                        "the board goes on at mirror {mirror}, {ms:.0} ms after its last event: {because}"
                    ),
                );
            }
            Read::Lagging(because) => self.write(now, format!("the board is too slow: {because}")),
        }
    }

    fn write(&mut self, now: Instant, line: String) {
        if self.diary.len() == DIARY_MAX {
            self.diary.pop_front();
        }
        self.diary.push_back((now.saturating_duration_since(self.began), line));
    }
}

impl OriginLine {
    /// Events offered and events sent a second.
    pub(super) fn rates(&self) -> Option<(f64, f64)> {
        let (&(first_at, offered, position), &(last_at, offered_now, position_now)) =
            (self.reports.front()?, self.reports.back()?);
        let seconds = last_at.saturating_duration_since(first_at).as_secs_f64();
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        (seconds > 0.0).then(|| (rate(offered, offered_now), rate(position, position_now)))
    }
}

fn storm_line(board: &Board, storm: Storm) -> Option<String> {
    match storm {
        Storm::Begins(readers) => Some(format!("{readers} readers join at once")),
        Storm::Joined(_) => None,
        Storm::Ended { joined, failed, half, all } => {
            let failed = if failed == 0 { String::new() } else { format!(", {failed} have none") };
            Some(format!(
                "{joined} readers have a snapshot{failed}: half after {:.0} ms, all after {:.0} ms",
                ms(half),
                ms(all)
            ))
        }
        Storm::Over => {
            let during = board.reader.tally.last_storm().and_then(|storm| storm.during)?;
            Some(format!(
                "they have left; meanwhile 99 of 100 events reached the board within {:.0} ms",
                ms(during)
            ))
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
pub(super) mod tests;
