//! A session: what each line does to the cluster, and what it prints.

use super::line::{HELP, Line};
use super::nodes::Nodes;
use super::show;
use crate::commands::{failure_of, status};
use crate::exit::{Failure, Verdict};
use crate::output::json::Answer;
use crate::output::style::Style;
use crate::output::{Format, explain, print, print_json};
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold::{Client, Reason, Reply};
use treefold_core::message::Report;
use treefold_search::{Hits, Statistics, TermsParams, TopKParams};

/// What the user can set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) deadline: Duration,
    pub(super) min_coverage: f64,
    pub(super) format: Format,
    pub(super) style: Style,
}

/// How many documents an answer shows: what fits on a screen beside its tree.
const SHOWN_MAX: u32 = 5;

/// What the second call of a query is given when the first has used up all time: zero would be refused.
const LEFT_MIN: Duration = Duration::from_millis(1);

/// What comes after a line.
pub(super) enum Next {
    /// The next line; this one ended so.
    GoOn(Verdict),
    /// Nothing more.
    Quit,
}

/// The cluster, a client of it, and the last answer's tree.
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

    /// Does what a line says, and prints what came of it.
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
                format!("answers are wanted within {deadline:?}")
            }
            Line::Coverage(share) => {
                self.settings.min_coverage = share;
                format!("an answer needs at least {share} of the partitions")
            }
            Line::Help => HELP.to_owned(),
        };
        self.say(&done);
        Ok(Next::GoOn(Verdict::Full))
    }

    /// Commands speak to people; where a script reads answers, they stay off its output.
    fn say(&self, text: &str) {
        match self.settings.format {
            Format::Text => print(text),
            Format::Json => eprintln!("{text}"),
        }
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

    /// Asks twice within one deadline: first how often the words occur everywhere, so that every partition scores
    /// alike, then for the documents. When the first answer is late, partitions score by their own figures: a ranking
    /// a little off, rather than none.
    async fn search(&self, query: &str) -> Result<Reply<Hits>, Failure> {
        let asked_at = Instant::now();
        let Settings { deadline, min_coverage, .. } = self.settings;
        let params = TermsParams { query: query.to_owned() };
        let terms = self.client.call::<Statistics>("search/terms", &params);
        let terms = terms.deadline(deadline / 2).min_coverage(min_coverage).await.map_err(failure_of)?;
        if terms.contributed.is_empty()
            && terms.missing.iter().any(|lost| matches!(lost.reason, Reason::LocalFailed(_)))
        {
            // Who can't count the query's words can't look for them either.
            return Ok(without_value(terms));
        }
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
            Some(report) => explain::draw(report, self.settings.style),
            None => "no answer yet: type a query first".to_owned(),
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

/// The same reply to another call: nobody contributed, so there is no value to convert.
fn without_value<T, U>(reply: Reply<T>) -> Reply<U> {
    let Reply { status, asked, contributed, missing, total_is_guess, elapsed, report, .. } = reply;
    Reply { status, value: None, asked, contributed, missing, total_is_guess, elapsed, report }
}

/// An answer as scripts see it: a call's, with the query before it.
#[derive(Serialize)]
struct ShownAnswer<'a> {
    query: &'a str,
    #[serde(flatten)]
    answer: Answer<&'a Option<Hits>>,
}
