//! The command line, parsed without a library, so that no dependency can influence the figures.
//!
//! The program has two roles. A user starts the launcher. A seat is a process of the tree, which the launcher
//! or another seat starts with [`Seat::to_args`].

use crate::tree::{Fanout, Place};
use std::fmt;
use std::str::FromStr;

/// Printed for `--help`, and after an invalid command line.
pub(crate) const USAGE: &str = "\
usage: treefold-floor [--nodes 16,64,256] [--fanout 8,flat] [--kind blocking,events,events-root]
                      [--rounds 1000] [--waves 10000] [--depth 64] [-o json]

  --nodes   sizes of the trees; every node is a process
  --fanout  children per inner node: a number, or `flat` for all under the root
  --kind    how the processes wait for each other:
              blocking     in blocking reads, without framing; the launcher is the root (default)
              told         as blocking, but the launcher sends its orders to every node itself; sums climb the tree
              events       in epoll, on non-blocking sockets; the launcher is a client of the root
              events-root  as events, with the launcher as the root
  --rounds  timed waves, one at a time
  --waves   timed waves, pipelined
  --depth   waves in flight when pipelined
  -o        text (default) or json, one object per tree

CPU times of JSON count all processes (roundtrip_cpu_us, cpu_us_per_wave) and the launcher's part of it
(client_roundtrip_cpu_us, client_cpu_us_per_wave).";

/// Most nodes of a tree; each is a process.
pub(crate) const NODES_MAX: u32 = 1024;
/// Most waves in flight. In a blocking tree, both directions must fit the sockets' buffers, or peers would wait
/// for each other forever. In an event-driven tree, this bounds the open waves and unsent bytes of a node.
pub(crate) const DEPTH_MAX: u32 = 1024;
/// Most timed waves.
pub(crate) const ROUNDS_MAX: u32 = 1_000_000;

/// How the processes of a tree wait for each other, and which of them is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Blocking reads; the launcher is the root.
    Blocking,
    /// As `Blocking`, but the root sends its orders to every node. Only the sums use the tree.
    Told,
    /// A readiness loop in every process; the launcher is a client of the root, which is a process of its own.
    Events,
    /// As `Events`, with the launcher as the root.
    EventsRoot,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Blocking, Self::Told, Self::Events, Self::EventsRoot];

    /// Returns the number of processes of a tree of `nodes` nodes besides the launcher.
    pub(crate) fn processes(self, nodes: u32) -> u32 {
        if self == Self::Events { nodes } else { nodes - 1 }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blocking => "blocking",
            Self::Told => "told",
            Self::Events => "events",
            Self::EventsRoot => "events-root",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or_else(|| format!("--kind: expected blocking, told, events or events-root, found {text}"))
    }
}

/// The measurements requested from the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Sizes of the trees.
    pub(crate) nodes: Vec<u32>,
    /// Shapes of the trees.
    pub(crate) fanouts: Vec<Fanout>,
    /// How their processes wait.
    pub(crate) kinds: Vec<Kind>,
    /// Waves timed one at a time.
    pub(crate) rounds: u32,
    /// Waves timed while pipelined.
    pub(crate) waves: u32,
    /// Waves in flight when pipelined.
    pub(crate) depth: u32,
    /// Whether to print JSON instead of text.
    pub(crate) json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: vec![16, 64, 256],
            fanouts: vec![Fanout::Kary(8), Fanout::Flat],
            kinds: vec![Kind::Blocking],
            rounds: 1000,
            waves: 10_000,
            depth: 64,
            json: false,
        }
    }
}

/// One process of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// Its place in the tree.
    pub(crate) place: Place,
    /// How it waits.
    pub(crate) kind: Kind,
    /// The loopback port on which its parent listens.
    pub(crate) parent_port: u16,
    /// The loopback port at which the root sends orders itself; 0 if they come from the parent.
    pub(crate) root_port: u16,
    /// Its parent's process id. The process must end when its parent ends.
    pub(crate) parent_process: u32,
}

impl Seat {
    const FLAG: &str = "--seat";

    /// Returns the arguments that [`parse`] reads back.
    pub(crate) fn to_args(&self) -> [String; 2] {
        let Place { number, nodes, fanout } = self.place;
        let Self { kind, parent_port, root_port, parent_process, .. } = self;
        let fields = format!("{number}/{nodes}/{fanout}/{kind}/{parent_port}/{root_port}/{parent_process}");
        [Self::FLAG.to_owned(), fields]
    }

    fn from_fields(fields: &str) -> Result<Self, String> {
        let mut parts = fields.split('/');
        let mut next = || parts.next().ok_or_else(|| format!("{fields}: too few fields"));
        let place = Place {
            number: number(Self::FLAG, next()?)?,
            nodes: number(Self::FLAG, next()?)?,
            fanout: number(Self::FLAG, next()?)?,
        };
        let kind = next()?.parse()?;
        let (parent_port, root_port) = (number(Self::FLAG, next()?)?, number(Self::FLAG, next()?)?);
        Ok(Self { place, kind, parent_port, root_port, parent_process: number(Self::FLAG, next()?)? })
    }
}

/// The role of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Print [`USAGE`].
    Help,
    /// Start trees and measure them.
    Launcher(Options),
    /// Run as a node.
    Seat(Seat),
}

/// Parses the arguments after the program's name. The error is the sentence to print.
pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Part, String> {
    let mut options = Options::default();
    while let Some(flag) = args.next() {
        if matches!(flag.as_str(), "--help" | "-h") {
            return Ok(Part::Help);
        }
        let value =
            args.next().ok_or_else(|| format!("{flag}: the option is unknown or its value is missing"))?;
        match flag.as_str() {
            Seat::FLAG => return Seat::from_fields(&value).map(Part::Seat),
            "--nodes" => {
                options.nodes =
                    list(&value, |one| bounded("--nodes", number("--nodes", one)?, 2, NODES_MAX))?;
            }
            "--fanout" => options.fanouts = list(&value, fanout)?,
            "--kind" => options.kinds = list(&value, Kind::from_str)?,
            "--waves" => options.waves = bounded("--waves", number("--waves", &value)?, 1, ROUNDS_MAX)?,
            "--rounds" => options.rounds = bounded("--rounds", number("--rounds", &value)?, 1, ROUNDS_MAX)?,
            "--depth" => options.depth = bounded("--depth", number("--depth", &value)?, 1, DEPTH_MAX)?,
            "-o" => {
                options.json = match value.as_str() {
                    "json" => true,
                    "text" => false,
                    other => return Err(format!("-o: expected text or json, found {other}")),
                }
            }
            other => return Err(format!("{other}: unknown option")),
        }
    }
    Ok(Part::Launcher(options))
}

fn list<T>(text: &str, one: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(one).collect()
}

fn fanout(text: &str) -> Result<Fanout, String> {
    if text == "flat" {
        return Ok(Fanout::Flat);
    }
    Ok(Fanout::Kary(bounded("--fanout", number("--fanout", text)?, 1, NODES_MAX)?))
}

fn number<T: FromStr>(flag: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{flag}: {text} is not a number in range"))
}

fn bounded(flag: &str, value: u32, least: u32, most: u32) -> Result<u32, String> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{flag}: {value} is not within {least} to {most}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Part, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_whole_line_is_read() {
        let options = Options {
            nodes: vec![16, 64],
            fanouts: vec![Fanout::Kary(8), Fanout::Flat],
            kinds: vec![Kind::Events, Kind::Blocking],
            rounds: 10,
            waves: 20,
            depth: 4,
            json: true,
        };
        let line =
            "--nodes 16,64 --fanout 8,flat --kind events,blocking --rounds 10 --waves 20 --depth 4 -o json";
        assert_eq!(parsed(line), Ok(Part::Launcher(options)));
        assert_eq!(parsed(""), Ok(Part::Launcher(Options::default())));
    }

    #[test]
    fn a_seat_is_read_back_from_its_own_arguments() {
        for kind in Kind::ALL {
            let place = Place { number: 3, nodes: 64, fanout: 8 };
            let seat = Seat { place, kind, parent_port: 40_000, root_port: 40_001, parent_process: 77 };
            assert_eq!(parse(seat.to_args().into_iter()), Ok(Part::Seat(seat)));
        }
    }

    #[test]
    fn a_bad_value_names_its_option_and_its_bounds() {
        assert_eq!(parsed("--nodes 1"), Err("--nodes: 1 is not within 2 to 1024".to_owned()));
        assert_eq!(parsed("--depth 0"), Err("--depth: 0 is not within 1 to 1024".to_owned()));
        assert_eq!(parsed("--fanout wide"), Err("--fanout: wide is not a number in range".to_owned()));
        let kinds = "--kind: expected blocking, told, events or events-root, found polling";
        assert_eq!(parsed("--kind polling"), Err(kinds.to_owned()));
        assert_eq!(parsed("--speed 3"), Err("--speed: unknown option".to_owned()));
        assert!(parsed("--rounds").is_err());
    }
}
