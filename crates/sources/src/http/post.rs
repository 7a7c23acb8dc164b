//! `POST …/events`: reads the body, offers its events in batches, and waits for their acknowledgement.

use super::Shared;
use super::answer::{Answer, Problem};
use super::body::Cutter;
use crate::feeder::{HandError, Refused};
use crate::intake::{Intake, Reached, until_acknowledged};
use crate::limits::SourceLimits;
use crate::reply::{Numbers, Refusals};
use axum::body::{Body, BodyDataStream};
use axum::extract::{Path, Query, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::time::{Instant, timeout, timeout_at};
use treefold_mirror::Event;
use treefold_mirror::event::{Defaults, Given};
use treefold_mirror::origin::{Numbers as Numbered, Refusal};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wishes {
    #[serde(default = "yes")]
    acknowledge: bool,
}

fn yes() -> bool {
    true
}

/// Takes the events of one request.
pub(super) async fn events<I: Intake>(
    State(shared): State<Arc<Shared<I>>>,
    Path(feed): Path<String>,
    Query(wishes): Query<Wishes>,
    request: Request,
) -> Response {
    if let Some(refused) = shared.refuse(&feed, request.headers()) {
        return refused;
    }
    let Ok(_place) = shared.requests.try_acquire() else {
        let limit = shared.feeder.limits.connections_max;
        return Answer::failed(Problem::Requests(limit)).into_response();
    };
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_document = kind.is_some_and(|kind| kind.split(';').next() == Some("application/json"));
    let limits = &shared.feeder.limits;
    let mut posting = Posting {
        cutter: Cutter::new(is_document, limits, Arc::clone(&shared.long_lines)),
        shared: &shared,
        events: VecDeque::new(),
        places: Vec::new(),
        reached: Reached::default(),
        answer: Answer::new(wishes.acknowledge),
    };
    posting.take(request.into_body()).await;
    posting.answer(wishes.acknowledge).await.into_response()
}

/// One request on its way.
struct Posting<'a, I> {
    shared: &'a Shared<I>,
    cutter: Cutter,
    events: VecDeque<Event>,
    /// The lines of the events.
    places: Vec<u64>,
    reached: Reached,
    answer: Answer,
}

impl<I: Intake> Posting<'_, I> {
    /// Reads the body and offers its events.
    async fn take(&mut self, body: Body) {
        let mut stop = self.shared.feeder.stop.clone();
        let taken = tokio::select! {
            biased;
            taken = self.take_all(body.into_data_stream()) => taken,
            () = stop.asked() => Err(Problem::Stopping),
        };
        if let Err(problem) = taken {
            let line = Some(self.cutter.count).filter(|&line| line > 0);
            self.answer.fail(line, problem);
        }
        // The request may wait for acknowledgements now, and others need the memory.
        self.cutter.close();
    }

    async fn take_all(&mut self, mut body: BodyDataStream) -> Result<(), Problem> {
        let began = Instant::now();
        loop {
            let chunk = self.next_chunk(&mut body, began).await?;
            let count = self.cutter.count;
            let is_over = match chunk {
                None => true,
                Some(Ok(bytes)) => {
                    self.cutter.push(&bytes).await;
                    false
                }
                Some(Err(error)) => return Err(Problem::NoEvents(format!("the body has no end: {error}"))),
            };
            if is_over {
                self.cutter.end();
            }
            let cut = self.take_texts().await;
            // The events before an error count.
            self.offer().await?;
            cut?;
            if is_over {
                return Ok(());
            }
            self.cutter.note_time(count);
        }
    }

    /// Waits for bytes, within the times of the body and of its present line.
    async fn next_chunk(
        &self,
        body: &mut BodyDataStream,
        began: Instant,
    ) -> Result<Option<Result<Bytes, axum::Error>>, Problem> {
        let limits = &self.shared.feeder.limits;
        let (body_at, silent_at) = (began + limits.body_within, Instant::now() + limits.line_within);
        let line_at = self.cutter.since.map(|since| since + limits.line_within);
        let give_up_at = body_at.min(line_at.unwrap_or(silent_at));
        timeout_at(give_up_at, body.next()).await.map_err(|_| match line_at {
            _ if give_up_at == body_at => Problem::SlowBody(limits.body_within),
            Some(_) => Problem::SlowLine(limits.line_within),
            None => Problem::Slow(limits.line_within),
        })
    }

    /// Takes the texts that have arrived, and offers their events whenever they are a batch.
    async fn take_texts(&mut self) -> Result<(), Problem> {
        let mut bytes = 0;
        while let Some((line, text)) = self.cutter.next_text()? {
            let defaults = Defaults { stream: self.shared.feeder.stream.as_ref(), number: None };
            match Given::from_json(text, &defaults, &self.shared.feeder.limits.events) {
                Ok(given) => {
                    bytes += given.event.bytes();
                    self.events.push_back(given.event);
                    self.places.push(line);
                }
                Err(error) => {
                    self.shared.feeder.tally.malformed();
                    self.answer.refused += 1;
                    self.answer.list(Refusals::of_line(line, &error));
                }
            }
            if self.events.len() >= SourceLimits::BATCH_EVENTS_MAX || bytes >= SourceLimits::BATCH_BYTES_MAX {
                self.offer().await?;
                bytes = 0;
            }
        }
        Ok(())
    }

    async fn offer(&mut self) -> Result<(), Problem> {
        let (places, answer) = (&self.places, &mut self.answer);
        let total = self.events.len() as u64;
        let mut passed = 0;
        let refused = |one: Refused| {
            passed += 1;
            match one.refusal {
                Refusal::Repeated { .. } => answer.repeated += 1,
                _ => {
                    answer.refused += 1;
                    answer.list(Refusals::of(places[one.index], one));
                }
            }
        };
        let feeder = &self.shared.feeder;
        let busy_within = Some(feeder.limits.busy_within);
        let handed = feeder
            .hand_over(&mut self.events, Numbered::Consecutive, busy_within, &mut self.reached, refused)
            .await;
        if handed != Err(HandError::Ended) {
            self.answer.accepted += total - passed - self.events.len() as u64;
        }
        // A busy origin leaves events, which are offered again.
        self.places.drain(..self.places.len() - self.events.len());
        Ok(handed?)
    }

    /// Waits for the acknowledgement of the events that the origin has.
    async fn answer(mut self, waits: bool) -> Answer {
        let mut acknowledged = self.shared.feeder.intake.acknowledged();
        if waits && !self.answer.has_failed() {
            let within = self.shared.feeder.limits.acknowledge_within;
            match timeout(within, until_acknowledged(&mut acknowledged, &self.reached)).await {
                Ok(true) => {}
                Ok(false) => self.answer.fail(None, Problem::Ended),
                Err(_) => self.answer.fail(None, Problem::NotAcknowledged(within)),
            }
        }
        self.answer.acknowledged = Numbers::of(&acknowledged.borrow(), &self.reached);
        self.answer
    }
}
