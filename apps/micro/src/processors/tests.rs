//! Tests of the schedule on a simulated clock, and one on the real clock.

use super::*;
use std::sync::mpsc::Receiver;

/// A schedule and the instant from which its times are counted.
struct Node {
    schedule: Schedule,
    from: Instant,
}

/// A job's owner: it receives the job's begin and end.
struct Held {
    begins: Receiver<()>,
    ended: Ended,
}

impl Held {
    fn has_begun(&self) -> bool {
        self.begins.try_recv().is_ok()
    }

    /// How late its end was reported, in ms.
    fn ended_late_ms(&mut self) -> Option<u128> {
        self.ended.try_recv().ok().map(|late| late.as_millis())
    }
}

impl Node {
    fn of(processors: u32) -> Self {
        let (mut schedule, from) = (Schedule::default(), Instant::now());
        schedule.set_count(processors, from);
        Self { schedule, from }
    }

    fn at(&self, ms: u64) -> Instant {
        self.from + Duration::from_millis(ms)
    }

    fn enter(&mut self, line: Line, ms: u64, at_ms: u64) -> Held {
        let ((began, begins), (done, ended)) = (sync_channel(1), oneshot::channel());
        let (duration, entered_at) = (Duration::from_millis(ms), self.at(at_ms));
        self.schedule.enter(line, Job { duration, entered_at, began, done }, entered_at);
        Held { begins, ended }
    }

    fn advance(&mut self, ms: u64) {
        let now = self.at(ms);
        self.schedule.advance(now);
    }

    /// When the next job ends, in ms.
    fn next_end_ms(&self) -> Option<u128> {
        self.schedule.next_end().map(|end| (end - self.from).as_millis())
    }
}

#[test]
fn two_processors_do_four_jobs_in_the_time_of_two() {
    let mut node = Node::of(2);
    let mut jobs: Vec<Held> = (0..4).map(|_| node.enter(Line::Locals, 25, 0)).collect();
    let begun: Vec<bool> = jobs.iter().map(Held::has_begun).collect();
    assert_eq!(begun, [true, true, false, false], "in the order they came");
    node.advance(24);
    assert!(jobs.iter_mut().all(|job| job.ended_late_ms().is_none()));
    node.advance(25);
    assert_eq!((jobs[0].ended_late_ms(), jobs[1].ended_late_ms()), (Some(0), Some(0)));
    assert!(jobs[2].has_begun() && jobs[3].has_begun());
    assert_eq!(node.next_end_ms(), Some(50));
    node.advance(50);
    assert_eq!((jobs[2].ended_late_ms(), jobs[3].ended_late_ms()), (Some(0), Some(0)));
    assert_eq!(node.next_end_ms(), None);
}

#[test]
fn reductions_go_first_and_interrupt_no_job() {
    let mut node = Node::of(1);
    let mut running = node.enter(Line::Locals, 25, 0);
    let local = node.enter(Line::Locals, 25, 1);
    let reductions = [node.enter(Line::Reductions, 5, 2), node.enter(Line::Reductions, 5, 3)];
    node.advance(24);
    assert!(
        running.ended_late_ms().is_none() && !reductions[0].has_begun(),
        "a running job is not interrupted"
    );
    node.advance(25);
    assert!(reductions[0].has_begun() && !reductions[1].has_begun() && !local.has_begun());
    node.advance(30);
    assert!(reductions[1].has_begun() && !local.has_begun());
    node.advance(35);
    assert!(local.has_begun());
    assert_eq!(node.next_end_ms(), Some(60), "all in all as long as all jobs together");
}

#[test]
fn late_wake_up_delays_the_report_and_not_the_schedule() {
    let mut node = Node::of(1);
    let (mut first, mut second) = (node.enter(Line::Locals, 10, 0), node.enter(Line::Locals, 10, 5));
    node.advance(13);
    assert_eq!(first.ended_late_ms(), Some(3));
    assert_eq!(node.next_end_ms(), Some(20), "it began when the first one ended");
    node.advance(100);
    assert_eq!(second.ended_late_ms(), Some(80));
    // This job arrived after an end that had not been noticed yet.
    let _running = node.enter(Line::Locals, 10, 100);
    let late = node.enter(Line::Locals, 10, 117);
    node.advance(118);
    assert!(late.has_begun());
    assert_eq!(node.next_end_ms(), Some(127), "it can't begin before it arrived");
}

#[test]
fn unwanted_job_still_takes_its_processor() {
    let mut node = Node::of(1);
    drop(node.enter(Line::Locals, 25, 0));
    drop(node.enter(Line::Locals, 25, 0));
    let wanted = node.enter(Line::Locals, 25, 0);
    node.advance(49);
    assert!(!wanted.has_begun());
    node.advance(50);
    assert!(wanted.has_begun());
}

#[test]
fn changing_the_number_of_processors_interrupts_no_job() {
    let mut node = Node::of(1);
    let jobs: Vec<Held> = (0..4).map(|_| node.enter(Line::Locals, 10, 0)).collect();
    let now = node.at(1);
    node.schedule.set_count(3, now);
    assert!(jobs[1].has_begun() && jobs[2].has_begun() && !jobs[3].has_begun());
    node.schedule.set_count(1, now);
    node.advance(10);
    assert!(!jobs[3].has_begun(), "two still run");
    node.advance(11);
    assert!(jobs[3].has_begun());
}

#[tokio::test]
async fn jobs_end_on_the_real_clock_too() {
    let processors = Processors::new();
    let begin = || processors.begin(Line::Locals, Duration::from_millis(1), 1).unwrap();
    // The second call blocks until the first job has ended.
    let (first, second) = (begin(), begin());
    assert!(first.await.is_ok() && second.await.is_ok());
}
