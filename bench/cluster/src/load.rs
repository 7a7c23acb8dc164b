//! Calls under load: what the experiments [`micro`](crate::micro), [`retrieval`](crate::retrieval) and
//! [`polling`](crate::polling) share.
//!
//! Calls arrive whether or not earlier calls have been answered. Response time counts from the *planned* instant
//! of a call ([`pace`]), so that a stall of the system cannot slow down the measurement itself.
//!
//! Shapes are compared on the same arrivals with the same costs, one right after the other, in a given number
//! of rounds, so that other load of the machine affects all of them alike. Every answer is checked. The error
//! of the emulation is measured as well: how late jobs ended, how late calls were sent, and how busy the
//! machine was ([`point`]).
//!
//! - [`args`]: the parameters of a load.
//! - [`pace`]: when calls are made.
//! - [`trial`]: one cluster under one load.
//! - [`point`]: from calls to figures, and how these are printed.

pub(crate) mod args;
pub(crate) mod pace;
pub(crate) mod point;
pub(crate) mod trial;

use args::LoadArgs;
use indicatif::{ProgressBar, ProgressStyle};
use pace::Pacing;
use point::Cell;
use std::time::Duration;
use treefold::Shape;
use treefold_cli::exit::Failure;
use treefold_cli::fleet::Fleet;
use trial::{Calls, Trial};

/// Pause between two trials, so that remains of one trial are not load of the next.
pub(crate) const REST: Duration = Duration::from_millis(500);

/// All loads and shapes that one cluster gets.
pub(crate) struct Sweep<'a> {
    pub(crate) load: &'a LoadArgs,
    pub(crate) pacing: Pacing,
    pub(crate) shapes: &'a [Shape],
    pub(crate) rates_per_s: Vec<f64>,
}

impl Sweep<'_> {
    /// Measures each shape at each rate, in rounds.
    ///
    /// Must be awaited on a `LocalSet`.
    pub(crate) async fn run(&self, calls: &impl Calls, fleet: &Fleet) -> Result<Vec<Cell>, Failure> {
        let mut cells: Vec<Cell> = Vec::new();
        for &rate_per_s in &self.rates_per_s {
            cells.extend(self.shapes.iter().map(|&shape| Cell::new(shape, rate_per_s)));
        }
        let seconds = (cells.len() as u32 * self.load.rounds) as f64 * self.load.trial_s();
        let bar = progress(fleet.size(), seconds);
        for round in 0..self.load.rounds {
            for cell in &mut cells {
                bar.set_message(format!("{} at {:.1} calls/s", cell.shape, cell.rate_per_s));
                let trial = Trial {
                    calls,
                    shape: cell.shape,
                    pacing: self.pacing,
                    rate_per_s: cell.rate_per_s,
                    // The same for each shape: the same arrivals and the same costs.
                    seed: self.load.seed.wrapping_add(u64::from(round) << 32),
                    warm_up: Duration::from_secs_f64(self.load.warm_up),
                    measured: Duration::from_secs_f64(self.load.seconds),
                };
                cell.add(trial.run(fleet, &bar).await?);
                tokio::time::sleep(REST).await;
            }
        }
        bar.finish_and_clear();
        Ok(cells)
    }
}

/// Makes a bar that counts the remaining milliseconds of measuring.
pub(crate) fn progress(nodes: usize, seconds: f64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix}, {msg} {wide_bar} {eta}");
    let bar = ProgressBar::new((seconds * 1e3) as u64);
    bar.set_prefix(format!("{nodes} nodes"));
    bar.with_style(style.expect("invariant: the template is well-formed"))
}
