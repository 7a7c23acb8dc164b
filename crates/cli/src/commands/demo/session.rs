//! A session: the effect of each line on the cluster, and its printed result.

use super::line::{HELP, Line};
use super::nodes::Nodes;
use super::{say, show};
use crate::commands::{failure_of, status};
use crate::exit::{Failure, Verdict};
use crate::output::json::Answer;
use crate::output::style::Style;
use crate::output::{Format, explain, print, print_json};
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold::{Client, Reply};
use treefold_core::message::Report;
use treefold_search::{Hits, Statistics, TermsParams, TopKParams};

/// Settings that the user can change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) deadline: Duration,
    pub(super) min_coverage: f64,
    pub(super) format: Format,
    pub(super) style: Style,
}

/// Largest number of documents shown for an answer, so that it fits on a screen beside its tree.
const SHOWN_MAX: u32 = 5;

/// Smallest deadline of a query's second call.
///
/// If the first call used up the time, a deadline of zero would be refused.
const LEFT_MIN: Duration = Duration::from_millis(1);

/// How a session continues after a line.
pub(super) enum Next {
    /// Take the next line; the last one ended with this verdict.
    GoOn(Verdict),
    /// End the session.
    Quit,
}

/// The cluster, a client of it, and the tree of the last answer.
pub(super) struct Session {
    nodes: Nodes,
    client: Client,
    settings: Settings,
    last_tree: Option<Report>,
}

impl Session {
    pub(super) async fn new(nodes: Nodes, settings: Settings) -> Result<Self, Failure> {
        let client = nodes.client().await?;
        nodes.in_sight_of(&client).await;
        Ok(Self { nodes, client, settings, last_tree: None })
    }

    /// Executes a line and prints its result.
    pub(super) async fn take(&mut self, text: &str) -> Result<Next, Failure> {
        let line = Line::parse(text, self.nodes.len()).map_err(Failure::Rejected)?;
        let done = match line {
            Line::Query(query) => return self.answer(&query).await.map(Next::GoOn),
            Line::Quit => return Ok(Next::Quit),
            Line::Nothing => return Ok(Next::GoOn(Verdict::Full)),
            Line::Kill(node) => self.nodes.kill(node),
            Line::Stall(node) => self.nodes.stall(node).map_err(Failure::Rejected)?,
            Line::Slow(node, factor) => self.nodes.slow(node, factor).map_err(Failure::Rejected)?,
            Line::Heal => {
                let healed = self.nodes.heal().await?;
                self.nodes.in_sight_of(&self.client).await;
                healed
            }
            Line::Tree => self.tree(),
            Line::Status => self.status().await?,
            Line::Deadline(deadline) => {
                self.settings.deadline = deadline;
                format!("the deadline of answers is {deadline:?}")
            }
            Line::Coverage(share) => {
                self.settings.min_coverage = share;
                format!("an answer needs at least {share} of the partitions")
            }
            Line::Help => HELP.to_owned(),
        };
        say(self.settings.format, &done);
        Ok(Next::GoOn(Verdict::Full))
    }

    async fn answer(&mut self, query: &str) -> Result<Verdict, Failure> {
        let reply = self.search(query).await?;
        match self.settings.format {
            Format::Json => print_json(&ShownAnswer { query, answer: Answer::of(&reply) }),
            Format::Text => print(show::render(query, &reply, self.settings.style)),
        }
        let verdict = Verdict::of(&reply.status);
        self.last_tree = reply.report.or(self.last_tree.take());
        Ok(verdict)
    }

    /// Makes two calls within one deadline.
    ///
    /// The first counts how often the words occur in all partitions, so that every partition scores alike.
    /// The second gets the documents. If the first answer is late, partitions score by their own counts, and
    /// the ranking is slightly off.
    async fn search(&self, query: &str) -> Result<Reply<Hits>, Failure> {
        let asked_at = Instant::now();
        let Settings { deadline, min_coverage, .. } = self.settings;
        let params = TermsParams::new(query);
        let terms = self.client.call::<Statistics>("search/terms", &params);
        let terms = terms.deadline(deadline / 2).min_coverage(min_coverage).await.map_err(failure_of)?;
        let params = TopKParams { statistics: terms.value, k: SHOWN_MAX, ..TopKParams::new(query) };
        let left = deadline.saturating_sub(asked_at.elapsed()).max(LEFT_MIN);
        let topk = self.client.call::<Hits>("search/topk", &params);
        let mut reply =
            topk.deadline(left).min_coverage(min_coverage).explain(true).await.map_err(failure_of)?;
        reply.elapsed = asked_at.elapsed();
        Ok(reply)
    }

    fn tree(&self) -> String {
        match &self.last_tree {
            Some(report) => explain::draw_named(report, self.settings.style, |node| self.nodes.name_of(node)),
            None => "there is no answer yet; type a query first".to_owned(),
        }
    }

    async fn status(&self) -> Result<String, Failure> {
        let status = self.client.status().await.map_err(failure_of)?;
        Ok(status::render(&status, self.settings.style))
    }

    /// Ends the nodes.
    pub(super) async fn end(self) {
        self.nodes.end().await;
    }
}

/// An answer as printed in JSON: the query, then the fields of a call's answer.
#[derive(Serialize)]
struct ShownAnswer<'a> {
    query: &'a str,
    #[serde(flatten)]
    answer: Answer<&'a Option<Hits>>,
}
