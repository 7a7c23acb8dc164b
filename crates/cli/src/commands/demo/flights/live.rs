//! The demo on a terminal: starts everything, shows the board, and ends everything.

use super::board::{Action, Board, Effect};
use super::news::{NEWS_MAX, News, Order};
use super::reader::{follow, on_thread};
use super::source::Source;
use super::stage::{Stage, watch_mirrors};
use super::storm::storm;
use super::{FEED, keys, view};
use crate::commands::mirror::report::word;
use crate::commands::mirror::set::ask;
use crate::endings::Endings;
use crate::exit::{Failure, Verdict};
use crate::output::print;
use crate::screen::{Palette, Screen, keys::pressed};
use std::future::pending;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use treefold::Client;
use treefold_feed::operating::{SetAnswer, SetRequest};
use treefold_flights::Options;
use treefold_mirror::change::ModeChoice;
use treefold_mirror::rules::Mode;

/// Interval of the pictures.
const FRAME: Duration = Duration::from_millis(100);
/// Orders that may wait.
const ORDERS_MAX: usize = 16;
/// Time that the origin has to change its rules.
const SET_WITHIN: Duration = Duration::from_secs(5);

/// The running parts of a demo, without its board.
pub(super) struct Show {
    pub(super) news: mpsc::Receiver<News>,
    sender: mpsc::Sender<News>,
    orders: Option<mpsc::Sender<Order>>,
    running: JoinHandle<Stage>,
    pub(super) source: JoinHandle<(super::values::Truth, super::news::Sent)>,
    /// Set to true to end the source, and the reader.
    source_ending: watch::Sender<bool>,
    reader_ending: watch::Sender<bool>,
    at: Vec<String>,
    cluster: String,
    pub(super) client: Client,
}

impl Show {
    /// Starts all processes, the source and the reader. Says what it does on standard error.
    pub(super) async fn start(flights: Options) -> Result<Self, Failure> {
        let (sender, news) = mpsc::channel(NEWS_MAX);
        crate::tell!("treefold: starting three mirrors and an origin, each a process of its own");
        let stage = Stage::start(sender.clone()).await?;
        let (at, cluster, origin) = (stage.addrs(), stage.cluster(), stage.source());
        let client = stage.client().await?;
        let (orders, ordered) = mpsc::channel(ORDERS_MAX);
        tokio::spawn(watch_mirrors(client.clone(), sender.clone()));
        let (source_ending, source_ends) = watch::channel(false);
        let (reader_ending, reader_ends) = watch::channel(false);
        let source = tokio::spawn(Source::new(flights, sender.clone(), source_ends).run(origin));
        let running = tokio::spawn(stage.run(ordered));
        let follows = follow(at.clone(), cluster.clone(), sender.clone(), reader_ends);
        on_thread("reader", move || follows);
        let orders = Some(orders);
        Ok(Self { news, sender, orders, running, source, source_ending, reader_ending, at, cluster, client })
    }

    /// Carries out the effect of an action. Returns false if the demo is to end.
    pub(super) async fn carry_out(&self, effect: Effect) -> bool {
        match effect {
            Effect::Nothing => {}
            Effect::End => return false,
            Effect::Order(order) => {
                if let Some(orders) = &self.orders {
                    // The stage takes orders as long as this sender lives. If it is busy, a key has no effect.
                    let _ = orders.try_send(order);
                }
            }
            Effect::Mode(mode) => {
                tokio::spawn(switch(self.client.clone(), mode, self.sender.clone()));
            }
            Effect::Storm(readers) => {
                let storm = storm(self.at.clone(), self.cluster.clone(), readers, self.sender.clone());
                on_thread("storm", move || storm);
            }
        }
        true
    }

    /// Asks the source for no further events.
    pub(super) fn end_source(&self) {
        self.source_ending.send_replace(true);
    }

    /// Ends the reader.
    pub(super) fn end_reader(&self) {
        self.reader_ending.send_replace(true);
    }

    /// Returns the stage once it has carried out the last order, and the news that came meanwhile.
    pub(super) async fn stop_orders(&mut self) -> Result<(Stage, Vec<News>), Failure> {
        self.orders = None;
        let mut meanwhile = Vec::new();
        loop {
            tokio::select! {
                stage = &mut self.running => {
                    let stage = stage.map_err(|error| Failure::failed(format!("the stage has ended: {error}")))?;
                    return Ok((stage, meanwhile));
                }
                // The stage may wait for room.
                Some(news) = self.news.recv() => meanwhile.push(news),
            }
        }
    }
}

/// Switches the rules of the origin to a mode.
async fn switch(client: Client, mode: Mode, news: mpsc::Sender<News>) {
    let choice = match mode {
        Mode::Normal => ModeChoice::Normal,
        Mode::Loaded => ModeChoice::Loaded,
    };
    let request = SetRequest { mode: Some(choice), ..SetRequest::default() };
    let line = match ask::<SetAnswer>(&client, FEED, "set", &request, SET_WITHIN).await {
        Ok(SetAnswer { refused: Some(refusal), .. }) => {
            format!("the origin refuses the mode: {}", refusal.message)
        }
        Ok(_) => format!("the rules switch to mode {}", word(mode)),
        Err(failure) => failure.to_string(),
    };
    // Without a board, the demo is ending.
    let _ = news.send(News::Said(line)).await;
}

/// Runs the demo until the user quits.
pub(super) async fn run(flights: Options) -> Result<Verdict, Failure> {
    let mut endings = Endings::catch()?;
    let mut show = tokio::select! {
        show = Show::start(flights) => show?,
        () = endings.next() => return Ok(Verdict::Full),
    };
    let mut board = Board::new(Instant::now());
    let shown = watch_board(&mut show, &mut board, &mut endings).await;
    crate::tell!("treefold: ending all processes");
    show.end_reader();
    let (stage, _) = show.stop_orders().await?;
    stage.end().await;
    shown?;
    let tally = &board.reader.tally;
    print(format_args!(
        "{} events were sent, {} processes killed; the board got {} events, resumed {} times, and missed {}",
        board.sent.generated,
        board.kills(),
        tally.events,
        tally.resumed,
        tally.gaps
    ));
    Ok(Verdict::Full)
}

async fn watch_board(show: &mut Show, board: &mut Board, endings: &mut Endings) -> Result<(), Failure> {
    let mut screen = Screen::enter()?;
    let palette = Palette::of_stdout();
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let action = tokio::select! {
            news = show.news.recv() => {
                match news {
                    Some(news) => board.observe(news, Instant::now()),
                    None => pending::<()>().await,
                }
                continue;
            }
            event = screen.event() => match event {
                Some(event) => pressed(&event).and_then(keys::action),
                None => return Ok(()),
            },
            () = endings.next() => return Ok(()),
            _ = frames.tick() => Some(Action::Redraw),
        };
        if let Some(action) = action {
            let effect = board.apply(action);
            if !show.carry_out(effect).await {
                return Ok(());
            }
            screen.draw(|frame| view::draw(frame, board, Instant::now(), palette))?;
        }
    }
}
