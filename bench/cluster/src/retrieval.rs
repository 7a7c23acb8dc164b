//! `bench-cluster retrieval`: the DAC paper's RET (§5.1, §5.3): tree shapes under load over a real search service.
//!
//! The folder's text is indexed into partitions, and every node is a process that serves one of them. A call runs
//! the real search of all partitions and folds the real hits. Its cost is stretched (`stretched-topk` of `--serve
//! search=…:emulate=K`): a job holds one of its node's emulated processors for the processor time that it really
//! took, times one factor, so that the paper's cluster fits on a machine of two processors. The factor is chosen
//! so that a node of two processors alone answers as few requests per second as the paper's.
//!
//! The paper has 28 partitions, one for each of 24 nodes of two processors and four of four. Its experiments use
//! 24 of these nodes: all the smaller ones, or 20 of them and the larger ones. So a run here asks for 24 of 28
//! partitions too ([`layout`]). The paper's trace is not public; [`query_log`] generates queries by a stated rule,
//! and [`pace`](crate::load::pace) the arrivals.
//!
//! Every answer must equal, hit by hit, the one that a loop over the same partitions gives in this process
//! ([`corpus`]). Before it measures, the command makes each call once and alone: nodes measure the costs, which they
//! keep for the run ([`calibration`]).
//!
//! - [`args`]: the parameters.
//! - [`layout`]: which node has which partition, and how many processors.
//! - [`corpus`]: the index in this process: its words, and the answers that are expected.
//! - [`query_log`]: the queries.
//! - [`caller`]: makes the calls, checks the answers.
//! - [`calibration`]: the costs, and the factor.

mod args;
mod calibration;
mod caller;
mod corpus;
mod layout;
mod query_log;

pub(crate) use args::BenchRetrieval;

use crate::load::Sweep;
use crate::load::pace::Pacing;
use crate::load::point::{self, Cell, Point, Scene};
use calibration::Calibration;
use caller::{Caller, Question, RetrievalCalls};
use corpus::OpenCorpus;
use query_log::QueryLog;
use serde::Serialize;
use std::path::Path;
use std::rc::Rc;
use tokio::task::LocalSet;
use treefold::PartitionSet;
use treefold_cli::commands::connect;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::fleet::Fleet;
use treefold_cli::output::{Format, print, print_json};
use treefold_search::Bar;

/// Results of a run.
#[derive(Debug, Serialize)]
struct Results {
    work: Calibration,
    points: Vec<Point>,
}

impl BenchRetrieval {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        self.check()?;
        let results = LocalSet::new().run_until(self.measure()).await?;
        match format {
            Format::Json => print_json(&results),
            Format::Text if self.load.csv => print(point::csv(&results.points)),
            Format::Text => print(format!("{}\n\n{}", results.work, point::table(&results.points))),
        }
        Ok(Verdict::Full)
    }

    async fn measure(&self) -> Result<Results, Failure> {
        let layout = self.layout();
        let index = self.corpus().index(layout.total(), &Bar::new()).map_err(Failure::failed)?;
        let corpus = OpenCorpus::open(&index.directory, layout.total())?;
        let log = self.query_log(&corpus, &index.directory)?;
        let asked: PartitionSet = layout.partitions().collect();
        let questions = log.queries().iter().map(|query| {
            Ok(Question { params: corpus::params(query), expected: corpus.answer(query, &asked)? })
        });
        let questions: Rc<[Question]> = questions.collect::<Result<_, Failure>>()?;

        let serves = layout.nodes().map(|node| self.serve(&index.directory, node));
        let fleet = Fleet::start_serving(serves.collect(), layout.processors().to_vec()).await?;
        let measured = self.measure_fleet(&fleet, &log, questions, asked).await;
        fleet.end().await;
        measured
    }

    /// The queries of the log's file, which is made first if there is none.
    fn query_log(&self, corpus: &OpenCorpus, directory: &Path) -> Result<QueryLog, Failure> {
        let path = match &self.log {
            Some(given) => given.clone(),
            None => directory.join(format!("queries-{}-{}.txt", self.load.seed, self.queries)),
        };
        if path.exists() {
            return QueryLog::read(&path);
        }
        let log = QueryLog::drawn(&corpus.words()?, self.queries as usize, self.load.seed)?;
        log.write(&path)?;
        Ok(log)
    }

    /// Calibrates one cluster and measures all loads and shapes on it.
    async fn measure_fleet(
        &self,
        fleet: &Fleet,
        log: &QueryLog,
        questions: Rc<[Question]>,
        asked: PartitionSet,
    ) -> Result<Results, Failure> {
        fleet.meet().await?;
        let client = connect(&[fleet.first_addr().to_owned()], false, fleet.cluster()).await?;
        let caller = Caller::new(client, asked, self.load.deadline);
        caller.await_exactness(&questions[0]).await?;
        let layout = self.layout();
        let work =
            Calibration::of(&caller, &questions, self.node_rate, layout.processors(), log.words_mean())
                .await?;
        let sweep = Sweep {
            load: &self.load,
            pacing: Pacing::Trace,
            shapes: &self.shape,
            rates_per_s: self.rates_per_s(work.ideal_per_s),
        };
        let calls = RetrievalCalls { caller, questions, factor: work.factor };
        let cells = sweep.run(&calls, fleet).await?;
        let scene = Scene {
            nodes: self.nodes,
            processors: layout.processors().iter().sum(),
            ideal_per_s: work.ideal_per_s,
            rounds: self.load.rounds,
            seconds: self.load.seconds,
        };
        let point = |cell: &Cell| cell.point(&scene, cell.rate_per_s);
        let points = cells.iter().map(point).collect();
        Ok(Results { work, points })
    }
}
