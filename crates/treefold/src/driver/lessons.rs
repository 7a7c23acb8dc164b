//! Learns to fold for services that this node does not have: asks the members that have one how its partials are folded.
//!
//! One member of each service is asked, and each member that comes later, because a service may have been started anew with
//! another reduce. A reduce that is a module is then fetched from the member. Only nodes that are to fold for others learn: relays, nodes without services, and inner processes of networks.

use super::Loop;
use super::launching::LaunchNews;
use crate::foreign::named;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::config::Kind;
use treefold_core::id::NodeId;
use treefold_core::input::{Command, Input};
use treefold_core::membership::card::MemberCard;
use treefold_core::message::{DeclaredReduce, Message};

/// The most members that are asked at a time.
const ASKED_MAX: usize = 8;
/// How long a member has for its answer. Builds that know no such question never answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a member is asked that does not answer.
const TRIES_MAX: u32 = 3;

/// The questions that a node has asked, and is to ask.
#[derive(Default)]
pub(super) struct Lessons {
    /// Members that were asked, or wait here.
    seen: BTreeSet<NodeId>,
    waiting: VecDeque<Lesson>,
    asked: BTreeMap<NodeId, Lesson>,
    /// Services of which a member has answered.
    told: BTreeSet<String>,
}

/// A question to a member.
#[derive(Clone)]
struct Lesson {
    node: NodeId,
    /// The services of the member that this node does not have.
    services: BTreeSet<String>,
    /// False if it need not be asked once another member has answered.
    is_news: bool,
    tries: u32,
}

impl Lessons {
    /// The next question.
    fn next(&mut self) -> Option<Lesson> {
        while self.asked.len() < ASKED_MAX {
            let lesson = self.waiting.pop_front()?;
            if lesson.is_news || !lesson.services.is_subset(&self.told) {
                self.asked.insert(lesson.node, lesson.clone());
                return Some(lesson);
            }
        }
        None
    }

    /// Asks a member that has not answered once more, or gives it up.
    fn ask_again(&mut self, node: NodeId) {
        let Some(lesson) = self.asked.remove(&node) else { return };
        if lesson.tries < TRIES_MAX {
            self.waiting.push_back(Lesson { tries: lesson.tries + 1, ..lesson });
        }
    }
}

impl Loop {
    /// A member has shown a card. If it has services whose reduces this node may learn, it is asked for them.
    pub(super) fn learn_of(self: &Rc<Self>, card: &Arc<MemberCard>) {
        let is_provided = |name: &&String| {
            let service = &card.services[*name];
            !service.partitions.is_empty() || service.placed.is_some()
        };
        let to_learn = card.services.keys().filter(|name| self.registry.learns(name)).filter(is_provided);
        let services: BTreeSet<String> = to_learn.cloned().collect();
        if services.is_empty() || card.node == self.identity.node {
            return;
        }
        {
            let lessons = &mut self.operators.borrow_mut().lessons;
            if !lessons.seen.insert(card.node) {
                return;
            }
            let is_news = services.is_subset(&lessons.told);
            lessons.waiting.push_back(Lesson { node: card.node, services, is_news, tries: 1 });
        }
        self.ask_for_reduces();
    }

    fn ask_for_reduces(self: &Rc<Self>) {
        loop {
            let next = self.operators.borrow_mut().lessons.next();
            let Some(Lesson { node, .. }) = next else { return };
            self.send(node, Message::ReducesWant);
            let this = Rc::clone(self);
            tokio::task::spawn_local(async move {
                tokio::time::sleep(PATIENCE).await;
                this.operators.borrow_mut().lessons.ask_again(node);
                this.ask_for_reduces();
            });
        }
    }

    /// A member wants to fold partials of this node's services.
    pub(super) fn declare_to(self: &Rc<Self>, from: NodeId) {
        if from.is_client() {
            return self.complaints.about(from, "a client asks for the reduces of services");
        }
        self.send(from, Message::Reduces { reduces: self.registry.declared() });
    }

    /// A member answers how partials of its services are folded.
    pub(super) fn take_lesson(self: &Rc<Self>, from: NodeId, reduces: Vec<DeclaredReduce>) {
        let lesson = self.operators.borrow_mut().lessons.asked.remove(&from);
        let Some(lesson) = lesson else {
            return self.complaints.about(from, "it declares reduces that it was not asked for");
        };
        let names = reduces.iter().map(|declared| declared.name.clone()).collect();
        self.registry.unlearn(&lesson.services, &names);
        for declared in reduces {
            let service = declared.name.split_once('/').map_or("", |(service, _)| service);
            if !lesson.services.contains(service) {
                continue;
            }
            match named(&declared.reduce) {
                None => self.learned(self.registry.learn(declared)),
                Some(Ok(id)) => self.learn_by_module(from, declared.name, id),
                Some(Err(problem)) => self.pass_by(&format!("{}: {problem}", declared.name)),
            }
        }
        self.operators.borrow_mut().lessons.told.extend(lesson.services);
        self.ask_for_reduces();
    }

    /// The node has learned, or knows why it can't.
    pub(super) fn learned(self: &Rc<Self>, result: Result<Option<Kind>, String>) {
        match result {
            Ok(Some(kind)) => {
                tracing::info!(node = %self.identity.node, aggregation = %kind.name, "folds for one more aggregation");
                self.feed(Input::Command(Command::Learn { kind }));
                self.hear(LaunchNews::Card { card: self.own_card() });
            }
            Ok(None) => {}
            Err(problem) => self.pass_by(&problem),
        }
    }

    /// This node does not fold an aggregation that it was told of.
    pub(super) fn pass_by(&self, problem: &str) {
        tracing::info!(node = %self.identity.node, %problem, "calls pass this node by");
    }

    pub(super) fn forget_lessons_of(self: &Rc<Self>, member: NodeId) {
        {
            let lessons = &mut self.operators.borrow_mut().lessons;
            if !lessons.seen.remove(&member) {
                return;
            }
            lessons.asked.remove(&member);
            lessons.waiting.retain(|lesson| lesson.node != member);
        }
        self.ask_for_reduces();
    }
}
