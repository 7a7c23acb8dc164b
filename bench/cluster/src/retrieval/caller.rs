//! Makes the calls of RET and checks the answers: each must be that of a loop over the same partitions.

use crate::load::pace::Arrival;
use crate::load::trial::{Calls, Ended, Times};
use std::rc::Rc;
use std::time::{Duration, Instant};
use treefold::{Body, Client, PartitionSet, Reply, Shape, Status};
use treefold_cli::commands::call::missing_line;
use treefold_cli::commands::failure_of;
use treefold_cli::exit::Failure;
use treefold_micro::{Answer, Stretch};
use treefold_search::{Hits, TopKParams};

/// Aggregation that every call names.
const KIND: &str = "search/stretched-topk";

/// Limit on a call that is made alone, and on the time until the answers are exact: the front must first meet all
/// nodes.
const ALONE_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of exact answers in a row after which the front counts as exact.
const EXACT_IN_A_ROW: u32 = 3;

/// Pause between two attempts to get an exact answer.
const EXACT_INTERVAL: Duration = Duration::from_millis(20);

/// A query, and the answer to it.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) params: TopKParams,
    pub(super) expected: Hits,
}

/// Makes calls at one front.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    client: Client,
    asked: PartitionSet,
    deadline: Duration,
}

/// The calls of a run: the log from its beginning, again and again.
pub(super) struct RetrievalCalls {
    pub(super) caller: Caller,
    pub(super) questions: Rc<[Question]>,
    pub(super) factor: f64,
}

impl Calls for RetrievalCalls {
    fn call(
        &self,
        arrival: Arrival,
        shape: Shape,
        _: f64,
    ) -> impl Future<Output = Result<Ended, Failure>> + 'static {
        let (caller, factor) = (self.caller.clone(), self.factor);
        let (questions, at) = (Rc::clone(&self.questions), arrival.turn(self.questions.len()));
        async move { caller.call(shape, factor, &questions[at]).await }
    }
}

impl Caller {
    pub(super) fn new(client: Client, asked: PartitionSet, deadline: Duration) -> Self {
        Self { client, asked, deadline }
    }

    async fn call(&self, shape: Shape, factor: f64, question: &Question) -> Result<Ended, Failure> {
        let params = stretched(factor, &question.params)?;
        let call = self.client.call::<Answer>(KIND, &params).partitions(self.asked.clone());
        let result = call.shape(shape).deadline(self.deadline).await;
        let times = |answer: &Answer| Times {
            jobs: u64::from(answer.locals) + u64::from(answer.reduces),
            asked_ns: answer.local_ns.saturating_add(answer.reduce_ns),
            late_ns: answer.late_ns,
        };
        Ended::of(result, |reply| fault_of(reply, question), times)
    }

    /// Makes a call without stretching it, and returns its checked answer.
    pub(super) async fn ask_alone(&self, question: &Question) -> Result<Answer, Failure> {
        value_of(self.reply_alone(question).await?, question)
    }

    /// Asks one partition a question, to learn the cost that its node has kept.
    pub(super) async fn ask_partition(&self, partition: u32, question: &Question) -> Result<Answer, Failure> {
        let params = stretched(1.0, &question.params)?;
        let call = self.client.call::<Answer>(KIND, &params).partitions([partition].into_iter().collect());
        value_of(call.deadline(ALONE_TIMEOUT).await.map_err(failure_of)?, question)
    }

    /// The partitions that calls ask.
    pub(super) fn asked(&self) -> &PartitionSet {
        &self.asked
    }

    /// Returns once the front's answers are exact, which means that it has met all nodes.
    pub(super) async fn await_exactness(&self, question: &Question) -> Result<(), Failure> {
        let give_up_at = Instant::now() + ALONE_TIMEOUT;
        let mut in_a_row = 0;
        while in_a_row < EXACT_IN_A_ROW {
            let reply = self.reply_alone(question).await?;
            if reply.status == Status::Full {
                in_a_row += 1;
                continue;
            }
            if Instant::now() >= give_up_at {
                return Err(Failure::failed(format!("no exact answer: {}", missing_of(&reply))));
            }
            in_a_row = 0;
            tokio::time::sleep(EXACT_INTERVAL).await;
        }
        Ok(())
    }

    async fn reply_alone(&self, question: &Question) -> Result<Reply<Answer>, Failure> {
        let params = stretched(1.0, &question.params)?;
        let call = self.client.call::<Answer>(KIND, &params).partitions(self.asked.clone());
        let reply = call.shape(Shape::Flat).deadline(ALONE_TIMEOUT).await.map_err(failure_of)?;
        match fault_of(&reply, question) {
            Some(fault) => Err(Failure::failed(format!("an answer was wrong: {fault}"))),
            None => Ok(reply),
        }
    }
}

fn stretched(factor: f64, params: &TopKParams) -> Result<Stretch, Failure> {
    Stretch::new(factor, params).map_err(|error| Failure::failed(error.to_string()))
}

fn value_of(reply: Reply<Answer>, question: &Question) -> Result<Answer, Failure> {
    let missing = missing_of(&reply);
    reply.value.ok_or_else(|| Failure::failed(format!("no answer to {:?}: {missing}", question.params.query)))
}

fn missing_of(reply: &Reply<Answer>) -> String {
    reply.missing.iter().map(missing_line).collect::<Vec<_>>().join("; ")
}

/// Describes the error in an answer; `None` if it is right, or if there is none.
fn fault_of(reply: &Reply<Answer>, question: &Question) -> Option<String> {
    let answer = reply.value.as_ref()?;
    let query = &question.params.query;
    let contributed = reply.contributed.len() as u64;
    if u64::from(answer.locals) != contributed || u64::from(answer.reduces) + 1 != contributed {
        let Answer { locals, reduces, .. } = answer;
        return Some(format!(
            "{locals} locals and {reduces} reduces from {contributed} partitions for {query:?}"
        ));
    }
    match Hits::decode(&answer.body) {
        Ok(hits) if hits == question.expected => None,
        Ok(hits) => Some(format!(
            "for {query:?}, {} hits of {} matches, expected {} of {}: {:?} and not {:?}",
            hits.hits.len(),
            hits.matched,
            question.expected.hits.len(),
            question.expected.matched,
            places(&hits),
            places(&question.expected)
        )),
        Err(error) => Some(error.to_string()),
    }
}

/// Partition, document and score of each hit.
fn places(hits: &Hits) -> Vec<(u32, u32, f32)> {
    hits.hits.iter().map(|hit| (hit.partition, hit.document, hit.score)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(matched: u64) -> Question {
        let expected = Hits { hits: Vec::new(), matched };
        Question { params: TopKParams::new("q"), expected }
    }

    fn reply(locals: u32, reduces: u32, matched: u64) -> Reply<Answer> {
        let body = Hits { hits: Vec::new(), matched }.encode().unwrap();
        Reply {
            status: Status::Full,
            value: Some(Answer { body, locals, reduces, ..Answer::default() }),
            asked: PartitionSet::first(4),
            contributed: PartitionSet::first(4),
            missing: Vec::new(),
            total_is_guess: false,
            elapsed: Duration::ZERO,
            report: None,
        }
    }

    #[test]
    fn answers_are_compared_with_the_expected_ones() {
        assert_eq!(fault_of(&reply(4, 3, 7), &question(7)), None);
        let wrong = fault_of(&reply(4, 3, 6), &question(7)).unwrap();
        assert!(wrong.contains("0 hits of 6 matches, expected 0 of 7"), "{wrong}");
        let twice = fault_of(&reply(5, 4, 7), &question(7)).unwrap();
        assert!(twice.contains("5 locals and 4 reduces from 4 partitions"), "{twice}");
        let unread =
            Reply { value: Some(Answer { locals: 4, reduces: 3, ..Answer::default() }), ..reply(4, 3, 7) };
        assert!(fault_of(&unread, &question(7)).unwrap().contains("can't read"));
    }
}
