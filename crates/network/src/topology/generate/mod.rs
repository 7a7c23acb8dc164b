//! Topologies made to measure: a layout, over given hosts.
//!
//! First the layout's outline is drawn for so many back-ends, then its processes are placed on hosts:
//!
//! - Back-ends fill the hosts' slots in the order in which the hosts are listed, so that neighbours on one host are
//!   neighbours in the tree.
//! - Inner processes stand on hosts of their own where such are given, evenly. MRNet recommends that: a back-end's
//!   work then doesn't hold up what passes (§2.6). Otherwise each stands with the first back-end below it, so that a
//!   part of the tree stays on the hosts that it is about.
//! - On each host the front-end is numbered first, then back-ends, then inner processes.

mod outline;
mod place;

use super::host::Host;
use super::{Bounds, Topology};
use outline::Outline;
use std::fmt;
use std::str::FromStr;

/// Levels of a balanced tree; more would have one child each at some level.
const LEVELS_MAX: usize = 64;

/// How processes are arranged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Every back-end right below the front-end.
    Flat,
    /// At most so many children each, with as few inner processes as that takes.
    Kary(u32),
    /// A binomial tree of the processes that aren't back-ends, with up to so many back-ends at each.
    Binomial {
        /// Back-ends at each.
        attached: u32,
    },
    /// So many children each, level by level; their product is the number of back-ends.
    Balanced(Vec<u32>),
}

impl Layout {
    /// Whether it is a tree with leaves at all.
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

    /// How many back-ends the layout has, where it says so itself.
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

/// Not the name of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a layout is {LAYOUT_NAMES}")]
pub struct BadLayout;

/// What a layout can be called.
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

/// Reads `8x8x4`, the fan-out of each level from the root down, or `4^3`, three levels of four each.
///
/// # Errors
/// When it is neither, a fan-out is zero, or there are more than 64 levels.
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

/// Where processes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The host of the front-end.
    pub front_end: Host,
    /// The hosts of the back-ends.
    pub hosts: Vec<Host>,
    /// The hosts of the inner processes; none means those of the back-ends.
    pub inner_hosts: Vec<Host>,
    /// Slots of a host that is listed without a number of them.
    pub slots: u32,
    /// How many back-ends; `None` fills every slot, or as many as the layout says.
    pub back_ends: Option<u32>,
}

/// Why a topology could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A layout that was not read from text, and makes no tree.
    #[error("{layout} is no layout; a layout is {LAYOUT_NAMES}")]
    BadLayout {
        /// What it is.
        layout: String,
    },
    /// There is nobody to place.
    #[error("no back-ends: there are neither hosts with slots nor a number of back-ends")]
    NoBackEnds,
    /// The layout says one number of back-ends, whoever asks another.
    #[error("{layout} has {of_layout} back-ends, and {asked} were asked for")]
    Contradiction {
        /// The layout.
        layout: String,
        /// What it makes.
        of_layout: u64,
        /// What was asked for.
        asked: u32,
    },
    /// The hosts don't have room for all.
    #[error("{wanted} {what} on hosts with {slots} slots: list more hosts, or give them more slots")]
    TooFewSlots {
        /// Who has no room.
        what: &'static str,
        /// How many there are.
        wanted: usize,
        /// How many slots there are.
        slots: u64,
    },
    /// More processes than are allowed.
    #[error("{processes} processes; allowed: {limit}")]
    TooManyProcesses {
        /// How many there would be.
        processes: u64,
        /// How many there may be.
        limit: usize,
    },
    /// More children than one process can have.
    #[error("a process with {children} children; allowed: {limit}")]
    FanOutTooLarge {
        /// How many it would have.
        children: usize,
        /// How many it may have.
        limit: usize,
    },
}

/// Makes a topology.
///
/// # Errors
/// When the layout has no room on the hosts or within the bounds, or there is nobody to place.
pub fn generate(layout: &Layout, placement: &Placement, bounds: &Bounds) -> Result<Topology, GenerateError> {
    if !layout.is_sensible() {
        return Err(GenerateError::BadLayout { layout: layout.to_string() });
    }
    let back_ends = back_ends_of(layout, placement)?;
    // The outline of too many would be too large to be drawn.
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
