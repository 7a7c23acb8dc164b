//! Progress of a start, as a bar if standard error is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use treefold_network::launch::Progress;

pub(super) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(super) fn new() -> Self {
        Self(None)
    }

    pub(super) fn show(&mut self, progress: Progress) {
        let bar = self.0.get_or_insert_with(|| begin(progress.total as u64));
        bar.set_position(progress.started as u64);
        if progress.failed > 0 {
            bar.set_message(format!("{} failed", progress.failed));
        }
        if progress.started + progress.failed >= progress.total {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn begin(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("starting {pos}/{len} processes {wide_bar} {msg}");
    ProgressBar::new(total).with_style(style.expect("invariant: the template is well-formed"))
}
