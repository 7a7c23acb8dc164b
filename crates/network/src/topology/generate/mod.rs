//! Generates topologies: a layout over given hosts.
//!
//! First, the layout's outline is built for a number of back-ends. Then its processes are placed on hosts:
//!
//! - Back-ends fill the hosts' slots in the order of the list, so that neighbours on one host are neighbours
//!   in the tree.
//! - Inner processes are placed evenly on separate hosts if such hosts are given. MRNet recommends this,
//!   because a back-end's work then does not delay the waves that pass through (§2.6). Otherwise each runs on
//!   the host of the first back-end below it, so that a part of the tree stays on the hosts of its back-ends.
//! - On each host, the front-end has the first number, followed by back-ends and then inner processes.

mod outline;
mod place;

use super::host::Host;
use super::{Bounds, Topology};
use outline::Outline;
use std::fmt;
use std::str::FromStr;

/// The most levels of a balanced tree. With more levels, some level would have one child per process.
const LEVELS_MAX: usize = 64;

/// The arrangement of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Every back-end directly below the front-end.
    Flat,
    /// At most this many children per process, with the fewest possible inner processes.
    Kary(u32),
    /// A binomial tree of the processes that are not back-ends, with up to this many back-ends at each.
    Binomial {
        /// Number of back-ends at each process.
        attached: u32,
    },
    /// Number of children per process for each level. Their product is the number of back-ends.
    Balanced(Vec<u32>),
}

impl Layout {
    /// Whether the layout is a tree with leaves.
    fn is_sensible(&self) -> bool {
        match self {
            Self::Flat => true,
            Self::Kary(k) => *k >= 2,
            Self::Binomial { attached } => *attached >= 1,
            Self::Balanced(fan_outs) => {
                (1..=LEVELS_MAX).contains(&fan_outs.len()) && fan_outs.iter().all(|&fan_out| fan_out > 0)
            }
        }
    }

    /// Number of back-ends, if the layout determines it.
    pub fn back_ends(&self) -> Option<u64> {
        match self {
            Self::Balanced(fan_outs) => {
                Some(fan_outs.iter().fold(1u64, |product, &fan_out| product.saturating_mul(fan_out.into())))
            }
            _ => None,
        }
    }
}

/// `flat`, `kary:8`, `binomial`, `binomial:4`, `balanced:8x8x4`, `balanced:4^3`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flat => f.write_str("flat"),
            Self::Kary(k) => write!(f, "kary:{k}"),
            Self::Binomial { attached: 1 } => f.write_str("binomial"),
            Self::Binomial { attached } => write!(f, "binomial:{attached}"),
            Self::Balanced(fan_outs) => {
                let written: Vec<String> = fan_outs.iter().map(ToString::to_string).collect();
                write!(f, "balanced:{}", written.join("x"))
            }
        }
    }
}

/// The text is not the name of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a layout is {LAYOUT_NAMES}")]
pub struct BadLayout;

/// The names of layouts.
pub const LAYOUT_NAMES: &str =
    "flat, kary:K (K from 2), binomial, binomial:N (N back-ends at each), balanced:8x8x4, balanced:4^3";

impl FromStr for Layout {
    type Err = BadLayout;

    fn from_str(text: &str) -> Result<Self, BadLayout> {
        let (name, argument) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let number = |text: &str| text.parse().map_err(|_| BadLayout);
        let layout = match (name, argument) {
            ("flat", None) => Self::Flat,
            ("kary", Some(k)) => Self::Kary(number(k)?),
            ("binomial", None) => Self::Binomial { attached: 1 },
            ("binomial", Some(attached)) => Self::Binomial { attached: number(attached)? },
            ("balanced", Some(fan_outs)) => Self::Balanced(fan_outs_of(fan_outs)?),
            _ => return Err(BadLayout),
        };
        Some(layout).filter(Self::is_sensible).ok_or(BadLayout)
    }
}

/// Parses `8x8x4`, the fan-out of each level from the root down, or `4^3`, three levels of four each.
///
/// # Errors
/// If the text has another form, a fan-out is zero, or there are more than 64 levels.
pub fn fan_outs_of(text: &str) -> Result<Vec<u32>, BadLayout> {
    let number = |text: &str| text.parse().ok().filter(|&number: &u32| number > 0);
    let fan_outs = match text.split_once('^') {
        Some((fan_out, levels)) => number(fan_out)
            .zip(number(levels))
            .map(|(fan_out, levels)| vec![fan_out; levels.min(LEVELS_MAX as u32 + 1) as usize]),
        None => text.split('x').map(number).collect(),
    };
    fan_outs.filter(|fan_outs| fan_outs.len() <= LEVELS_MAX).ok_or(BadLayout)
}

/// The hosts of a topology's processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The host of the front-end.
    pub front_end: Host,
    /// The hosts of the back-ends.
    pub hosts: Vec<Host>,
    /// The hosts of the inner processes; if empty, those of the back-ends.
    pub inner_hosts: Vec<Host>,
    /// Slots of a host that is listed without a number of slots.
    pub slots: u32,
    /// Number of back-ends. `None` uses the layout's number, or else fills every slot.
    pub back_ends: Option<u32>,
}

/// Why a topology could not be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A layout that was not parsed from text and is not a valid tree.
    #[error("{layout} is not a valid layout; a layout is {LAYOUT_NAMES}")]
    BadLayout {
        /// The layout.
        layout: String,
    },
    /// There are no back-ends.
    #[error("no back-ends: there are neither hosts with slots nor a number of back-ends")]
    NoBackEnds,
    /// The layout determines another number of back-ends than was requested.
    #[error("{layout} has {of_layout} back-ends, but {asked} were asked for")]
    Contradiction {
        /// The layout.
        layout: String,
        /// The layout's number.
        of_layout: u64,
        /// The requested number.
        asked: u32,
    },
    /// The hosts have too few slots.
    #[error(
        "{wanted} {what} do not fit on hosts with {slots} slots; list more hosts or give them more slots"
    )]
    TooFewSlots {
        /// The kind of processes without enough slots.
        what: &'static str,
        /// Number of these processes.
        wanted: usize,
        /// Number of slots.
        slots: u64,
    },
    /// There would be more processes than allowed.
    #[error("{processes} processes; allowed: {limit}")]
    TooManyProcesses {
        /// The number of processes.
        processes: u64,
        /// The most processes.
        limit: usize,
    },
    /// A process would have too many children.
    #[error("a process with {children} children; allowed: {limit}")]
    FanOutTooLarge {
        /// The number of children.
        children: usize,
        /// The most children.
        limit: usize,
    },
}

/// Generates a topology.
///
/// # Errors
/// If the layout does not fit on the hosts or within the bounds, or has no back-ends.
pub fn generate(layout: &Layout, placement: &Placement, bounds: &Bounds) -> Result<Topology, GenerateError> {
    if !layout.is_sensible() {
        return Err(GenerateError::BadLayout { layout: layout.to_string() });
    }
    let back_ends = back_ends_of(layout, placement)?;
    // Checked first, because the outline of too many processes would be too large.
    if back_ends >= bounds.processes_max as u64 {
        return Err(too_many(back_ends.saturating_add(1), bounds));
    }
    let outline = Outline::draw(layout, back_ends as u32);
    if outline.children.len() > bounds.processes_max {
        return Err(too_many(outline.children.len() as u64, bounds));
    }
    let children = outline.children.iter().map(Vec::len).max().unwrap_or(0);
    if children > bounds.fan_out_max {
        return Err(GenerateError::FanOutTooLarge { children, limit: bounds.fan_out_max });
    }
    let names = place::place(&outline, placement)?;
    Ok(Topology::assemble(0, &outline.children, |number| names[number as usize].clone()))
}

fn back_ends_of(layout: &Layout, placement: &Placement) -> Result<u64, GenerateError> {
    let slots = place::slots_of(&placement.hosts, placement.slots);
    let back_ends = match (layout.back_ends(), placement.back_ends) {
        (Some(of_layout), Some(asked)) if of_layout != u64::from(asked) => {
            return Err(GenerateError::Contradiction { layout: layout.to_string(), of_layout, asked });
        }
        (Some(of_layout), _) => of_layout,
        (None, Some(asked)) => asked.into(),
        (None, None) => slots,
    };
    if back_ends == 0 { Err(GenerateError::NoBackEnds) } else { Ok(back_ends) }
}

fn too_many(processes: u64, bounds: &Bounds) -> GenerateError {
    GenerateError::TooManyProcesses { processes, limit: bounds.processes_max }
}

#[cfg(test)]
mod tests;
