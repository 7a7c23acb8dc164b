//! The state of `treefold top`: a plain value.
//!
//! It takes looks, failures and actions, and it is drawn. It has no clock (the caller passes the time) and no
//! terminal. It gives its settings for the next looks as [`Wishes`].

use super::source::{Look, Wishes};
use super::{INTERVAL_MAX, INTERVAL_MIN};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use treefold_hosts::rank::HostLine;
use treefold_hosts::{Hosts, Placed};

/// Number of remembered looks: ten minutes at one per second.
const HISTORY_MAX: usize = 600;

/// Intervals that `+` and `-` step through.
const INTERVALS: [Duration; 8] = [
    INTERVAL_MIN,
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    INTERVAL_MAX,
];

/// Order of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Sort {
    /// Use of processors.
    #[default]
    Cpu,
    /// Lack of memory; processes by the memory they occupy.
    Memory,
    /// Traffic; processes by use of processors, since their traffic is not measured.
    Network,
}

impl Sort {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Network => "network",
        }
    }
}

/// An action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    /// Stop looking, or resume.
    Pause,
    Sort(Sort),
    /// The next or the previous host of the list.
    Next,
    Previous,
    /// End the choice of a host.
    Deselect,
    Slower,
    Faster,
    /// Show or hide the help.
    Help,
    /// Only draw again.
    Redraw,
}

/// Whether to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    GoOn,
    End,
}

/// The remembered figures of one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) cpu_permille: u64,
    pub(crate) memory_permille: u64,
    pub(crate) net_bytes_s: u64,
    pub(crate) disk_bytes_s: u64,
}

impl Point {
    fn of(hosts: &Hosts) -> Self {
        let figures = &hosts.figures;
        Self {
            cpu_permille: figures.cpu_permille(),
            memory_permille: figures.memory_permille(),
            net_bytes_s: figures.net_bytes_s(),
            disk_bytes_s: figures.disk_bytes_s(),
        }
    }
}

/// Points of the last looks; `None` for a failed look.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    points: VecDeque<Option<Point>>,
    /// Number of points pushed so far, including forgotten ones.
    count: usize,
}

impl History {
    fn push(&mut self, point: Option<Point>) {
        if self.points.len() == HISTORY_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
        self.count += 1;
    }

    /// Returns the last points in `columns` columns of `per_column` points each, oldest first.
    ///
    /// A column is the mean of `figure` over its existing points. Columns begin at multiples of `per_column`
    /// points since the start, so that a point never moves to another column. The last column may be
    /// incomplete.
    pub(crate) fn columns(
        &self,
        columns: usize,
        per_column: usize,
        figure: impl Fn(&Point) -> u64,
    ) -> Vec<Option<u64>> {
        let first = self.count - self.points.len();
        let mut all: Vec<(usize, u64, u64)> = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            let column = (first + at) / per_column.max(1);
            if all.last().is_none_or(|&(last, ..)| last != column) {
                all.push((column, 0, 0));
            }
            if let (Some(point), Some((_, sum, count))) = (point, all.last_mut()) {
                *sum = sum.saturating_add(figure(point));
                *count += 1;
            }
        }
        let from = all.len().saturating_sub(columns);
        all[from..].iter().map(|&(_, sum, count)| sum.checked_div(count)).collect()
    }
}

/// The whole state.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Address of the node that is asked.
    pub(crate) asked: String,
    /// The last successful look, and its time.
    pub(crate) look: Option<(Instant, Look)>,
    /// Error of the last look, if it failed.
    pub(crate) trouble: Option<String>,
    pub(crate) history: History,
    pub(crate) sort: Sort,
    /// Number of the chosen host.
    pub(crate) selected: Option<u32>,
    pub(crate) paused: bool,
    pub(crate) help: bool,
    pub(crate) interval: Duration,
    top: u32,
}

impl Model {
    pub(crate) fn new(asked: String, sort: Sort, interval: Duration, top: u32) -> Self {
        Self {
            asked,
            look: None,
            trouble: None,
            history: History::default(),
            sort,
            selected: None,
            paused: false,
            help: false,
            interval,
            top,
        }
    }

    /// Returns the settings for the next looks.
    pub(crate) fn wishes(&self) -> Wishes {
        Wishes { interval: self.interval, top: self.top, focus: self.selected }
    }

    /// Records a look.
    pub(crate) fn observe(&mut self, look: Look, now: Instant) {
        self.history.push(look.hosts.as_ref().map(Point::of));
        self.trouble = None;
        self.look = Some((now, look));
    }

    /// Records that a look failed.
    ///
    /// The last look stays, with its age.
    pub(crate) fn fail(&mut self, why: String) {
        self.history.push(None);
        self.trouble = Some(why);
    }

    /// Executes an action.
    pub(crate) fn apply(&mut self, action: Action) -> Flow {
        match action {
            Action::Quit => return Flow::End,
            Action::Pause => self.paused = !self.paused,
            Action::Sort(sort) => self.sort = sort,
            Action::Next => self.select(1),
            Action::Previous => self.select(-1),
            Action::Deselect => (self.selected, self.help) = (None, false),
            Action::Slower => {
                let next = INTERVALS.into_iter().find(|&interval| interval > self.interval);
                self.interval = next.unwrap_or(INTERVAL_MAX);
            }
            Action::Faster => {
                let next = INTERVALS.into_iter().rfind(|&interval| interval < self.interval);
                self.interval = next.unwrap_or(INTERVAL_MIN);
            }
            Action::Help => self.help = !self.help,
            Action::Redraw => {}
        }
        Flow::GoOn
    }

    /// Moves the choice along the list.
    ///
    /// Starts at the top if no host is chosen or the chosen one has left the list.
    fn select(&mut self, step: isize) {
        let ids: Vec<u32> = self.hosts().iter().map(|line| line.host.id).collect();
        let at = ids.iter().position(|&id| Some(id) == self.selected);
        let to = at.map_or(0, |at| at.saturating_add_signed(step).min(ids.len().saturating_sub(1)));
        self.selected = ids.get(to).copied();
    }

    /// Returns the hosts of the list, worst first.
    pub(crate) fn hosts(&self) -> Vec<&HostLine> {
        let Some(hosts) = self.folded() else { return Vec::new() };
        match self.sort {
            Sort::Cpu => hosts.hosts_by_cpu.items().iter().map(|ranked| &ranked.0).collect(),
            Sort::Memory => hosts.hosts_by_memory.items().iter().map(|ranked| &ranked.0).collect(),
            Sort::Network => hosts.hosts_by_network.items().iter().map(|ranked| &ranked.0).collect(),
        }
    }

    /// Returns the processes of the list, worst first: of the chosen host as far as they are known, or of the
    /// cluster.
    pub(crate) fn processes(&self) -> Vec<&Placed> {
        let own = self.look.as_ref().and_then(|(_, look)| look.focus.as_ref());
        let own = own.filter(|own| self.selected.is_some_and(|id| speaks_of(own, id)));
        let Some(hosts) = own.or(self.folded()) else { return Vec::new() };
        let all: Vec<&Placed> = match self.sort {
            Sort::Memory => hosts.processes_by_memory.items().iter().map(|ranked| &ranked.0).collect(),
            Sort::Cpu | Sort::Network => {
                hosts.processes_by_cpu.items().iter().map(|ranked| &ranked.0).collect()
            }
        };
        all.into_iter().filter(|placed| self.selected.is_none_or(|id| placed.host.id == id)).collect()
    }

    /// Returns the hosts' folded samples from the last look.
    pub(crate) fn folded(&self) -> Option<&Hosts> {
        self.look.as_ref()?.1.hosts.as_ref()
    }
}

fn speaks_of(own: &Hosts, id: u32) -> bool {
    own.hosts_by_cpu.items().first().is_some_and(|line| line.0.host.id == id)
}

#[cfg(test)]
pub(crate) mod tests;
