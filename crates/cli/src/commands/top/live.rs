//! The event loop: waits for a look, a key or a signal, updates the model, draws.

use super::keys;
use super::model::{Flow, Model};
use super::source::{Source, Wishes};
use super::view;
use crate::endings::Endings;
use crate::exit::{Failure, Verdict};
use crate::screen::{Palette, Screen, keys::pressed};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Interval at which the picture is redrawn without events, because the shown ages grow.
const TICK: Duration = Duration::from_secs(1);

/// Watches until the user quits.
///
/// The first look comes before the terminal is taken over, so that an error at the start is printed as by any
/// other command.
pub(crate) async fn run(
    mut source: impl Source,
    mut model: Model,
    wishes: &watch::Sender<Wishes>,
) -> Result<Verdict, Failure> {
    let mut endings = Endings::catch()?;
    let first = tokio::select! {
        look = source.next() => look?,
        () = endings.next() => return Ok(Verdict::Full),
    };
    model.observe(first, Instant::now());
    let mut wheel = Wheel { screen: Screen::enter()?, endings, model, palette: Palette::of_stdout() };
    loop {
        let flow = if wheel.model.paused {
            wheel.turn(std::future::pending(), wishes).await?
        } else {
            wheel.turn(source.next(), wishes).await?
        };
        if flow == Flow::End {
            return Ok(Verdict::Full);
        }
    }
}

struct Wheel {
    screen: Screen,
    endings: Endings,
    model: Model,
    palette: Palette,
}

impl Wheel {
    /// Handles events until the next look has come or the user has paused or resumed.
    async fn turn(
        &mut self,
        next: impl Future<Output = Result<super::source::Look, Failure>>,
        wishes: &watch::Sender<Wishes>,
    ) -> Result<Flow, Failure> {
        let mut next = pin!(next);
        let paused = self.model.paused;
        while self.model.paused == paused {
            let (model, palette) = (&self.model, self.palette);
            self.screen.draw(|frame| view::draw(frame, model, Instant::now(), palette))?;
            tokio::select! {
                // The look is begun before a key can end it: dropped unbegun, it would leave the source its stream.
                biased;
                look = &mut next => {
                    match look {
                        Ok(look) => self.model.observe(look, Instant::now()),
                        Err(failure) => self.model.fail(failure.to_string()),
                    }
                    return Ok(Flow::GoOn);
                }
                event = self.screen.event() => {
                    let Some(event) = event else { return Ok(Flow::End) };
                    let action = pressed(&event).and_then(keys::action);
                    if action.is_some_and(|action| self.model.apply(action) == Flow::End) {
                        return Ok(Flow::End);
                    }
                    let wanted = self.model.wishes();
                    wishes.send_if_modified(|wishes| std::mem::replace(wishes, wanted) != wanted);
                }
                () = self.endings.next() => return Ok(Flow::End),
                () = tokio::time::sleep(TICK) => {}
            }
        }
        Ok(Flow::GoOn)
    }
}
