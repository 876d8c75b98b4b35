//! How data flows: what the nodes say of each pipeline becomes one answer. What is a trouble was decided on the nodes
//! (`weir-observe`); here it is only put together.

mod told;

use std::collections::{BTreeMap, BTreeSet};

use weir_observe::{Amounts, Kept, State, Trouble};
use weir_plan::PipelineId;

pub(crate) use told::{Common, Told, Troubled};

use super::layout::Workload;
use super::picture::{Answer, PodState};

/// What a node said stays true for so many rounds in which it does not answer.
const ROUNDS: u8 = 6;

/// So many pods with a trouble are named.
const MOST_NAMED: usize = 3;

/// How the data of a pipeline flows, of what clients push and of what agents collect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) gateway: Option<Found>,
    pub(crate) agent: Option<Found>,
}

/// A trouble on some nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// What it is for the whole cluster: while one node delivers, not all is dropped.
    pub(crate) state: State,
    /// The worst, with the amounts of all.
    pub(crate) trouble: Trouble,
    /// Nodes that have it, and all that have the pipeline.
    pub(crate) nodes: usize,
    pub(crate) of: usize,
    /// The pods of the first few that have it, by their names.
    pub(crate) pods: Vec<String>,
}

/// How many pods of a workload answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Probing {
    /// Those that did within the last rounds.
    pub(crate) answer: usize,
    /// Those that did not, though they are there and were asked.
    pub(crate) silent: usize,
}

/// What nodes said last.
#[derive(Default)]
pub(crate) struct Said {
    /// By the names of pods.
    nodes: BTreeMap<String, Node>,
    /// What those said in this round that had said nothing before.
    new: BTreeMap<String, Told>,
    flows: BTreeMap<PipelineId, Flow>,
    delivering: BTreeSet<PipelineId>,
}

/// What a node said last.
struct Node {
    workload: Workload,
    /// Since then, or since it is there.
    rounds: u8,
    told: Option<Told>,
    is_there: bool,
}

/// What all nodes say of a pipeline.
#[derive(Default)]
struct Heard<'a> {
    /// Those that have it.
    nodes: usize,
    /// Whether one delivers something.
    delivers: bool,
    /// Whether one does that has not just begun to deliver again.
    is_delivered: bool,
    /// Its troubles, in the order of the names of pods.
    troubled: Vec<(&'a str, &'a Troubled)>,
}

impl<'a> Heard<'a> {
    fn add(&mut self, pod: &'a str, delivers: bool, troubled: Option<&'a Troubled>) {
        self.nodes += 1;
        self.delivers |= delivers;
        self.is_delivered |= delivers && !troubled.is_some_and(|of| of.trouble.state.delivers_nothing());
        self.troubled.extend(troubled.map(|of| (pod, of)));
    }
}

impl Said {
    /// Takes what a node says of its pipelines in a round that goes on. It takes the place of what that node said
    /// before, so that never all of it is there twice, and counts from the end of the round on.
    pub(crate) fn hear(&mut self, pod: &str, told: Told) {
        match self.nodes.get_mut(pod).and_then(|node| node.told.as_mut()) {
            Some(known) => *known = told,
            None => {
                self.new.insert(pod.to_owned(), told);
            }
        }
    }

    /// Ends a round in which these pods were asked, and these have answered and were heard; returns whether they say
    /// anything else than before. What nodes said that are not there any more is forgotten.
    pub(crate) fn end_round<'a>(
        &mut self,
        answers: &BTreeMap<String, Answer>,
        asked: impl Iterator<Item = &'a PodState>,
    ) -> bool {
        let before = (std::mem::take(&mut self.flows), std::mem::take(&mut self.delivering), self.probing());
        for node in self.nodes.values_mut() {
            node.rounds = node.rounds.saturating_add(1);
            node.is_there = false;
        }
        for PodState { name, workload, ready, .. } in asked {
            let new = || Node { workload: *workload, rounds: 0, told: None, is_there: false };
            let node = self.nodes.entry(name.clone()).or_insert_with(new);
            node.is_there = *ready || answers.contains_key(name);
        }
        for pod in answers.keys() {
            if let Some(node) = self.nodes.get_mut(pod) {
                node.rounds = 0;
                node.told = self.new.remove(pod).or_else(|| node.told.take());
            }
        }
        self.new.clear();
        self.nodes.retain(|_, node| node.is_there || node.rounds < ROUNDS);
        self.put_together();
        before != (self.flows.clone(), self.delivering.clone(), self.probing())
    }

    /// Who answers, of each workload of which a pod is there, or was a moment ago.
    pub(crate) fn probing(&self) -> BTreeMap<Workload, Probing> {
        let mut all: BTreeMap<_, Probing> = BTreeMap::new();
        for node in self.nodes.values() {
            let of = all.entry(node.workload).or_default();
            match (node.rounds < ROUNDS, &node.told) {
                (true, Some(_)) => of.answer += 1,
                // It has just come.
                (true, None) => {}
                (false, _) => of.silent += usize::from(node.is_there),
            }
        }
        all
    }

    /// Pipelines of which a node delivers something.
    pub(crate) fn delivering(&self) -> &BTreeSet<PipelineId> {
        &self.delivering
    }

    /// How data flows, as all nodes see it. Pipelines without any trouble are not in it.
    pub(crate) fn flows(&self) -> &BTreeMap<PipelineId, Flow> {
        &self.flows
    }

    fn put_together(&mut self) {
        let mut by_pipeline: BTreeMap<&PipelineId, Heard<'_>> = BTreeMap::new();
        let heard = self.nodes.iter().filter(|(_, node)| node.is_there && node.rounds < ROUNDS);
        for (pod, told) in heard.filter_map(|(pod, node)| Some((pod.as_str(), node.told.as_ref()?))) {
            for (id, delivers, troubled) in told.each() {
                by_pipeline.entry(id).or_default().add(pod, delivers, troubled);
            }
        }
        let delivering = by_pipeline.iter().filter(|(_, heard)| heard.delivers);
        self.delivering = delivering.map(|(id, _)| (*id).clone()).collect();
        let flows = by_pipeline.into_iter().map(|(id, heard)| (id, Flow::of(&heard)));
        self.flows = flows.filter(|(_, flow)| *flow != Flow::default()).map(|(id, flow)| (id.clone(), flow)).collect();
    }
}

impl Flow {
    fn of(heard: &Heard<'_>) -> Self {
        let found = |concerns: fn(&Troubled) -> bool| {
            let concerned: Vec<_> = heard.troubled.iter().copied().filter(|(_, troubled)| concerns(troubled)).collect();
            Found::of(&concerned, heard)
        };
        // Clients alone are turned away.
        let of_agent = |of: &Troubled| of.roles.agent && of.trouble.state != State::Throttling;
        Self { gateway: found(|of| of.roles.gateway), agent: found(of_agent) }
    }
}

impl Found {
    fn of(concerned: &[(&str, &Troubled)], heard: &Heard<'_>) -> Option<Self> {
        let for_all = |trouble: &Trouble| match trouble.state {
            State::AllDropped if heard.is_delivered => State::SomeDropped,
            State::NothingDelivered if heard.is_delivered => State::BufferFilling,
            state => state,
        };
        let troubles = || concerned.iter().map(|(_, troubled)| &troubled.trouble);
        // Of several, the first counts.
        let (_, worst) = concerned.iter().rev().max_by_key(|(_, troubled)| for_all(&troubled.trouble))?;
        let state = for_all(&worst.trouble);
        let trouble = Trouble {
            state: worst.trouble.state,
            since: troubles().map(|trouble| trouble.since).min().unwrap_or_default(),
            amounts: troubles().map(|trouble| trouble.amounts).fold(Amounts::default(), Amounts::and),
            kept: troubles().map(|trouble| trouble.kept).reduce(Kept::and).unwrap_or_default(),
            may_be_slow: troubles().filter(|of| of.state == worst.trouble.state).all(|of| of.may_be_slow),
            // As its words.
            fails_here: worst.trouble.fails_here,
            words: worst.words.as_ref().to_owned(),
        };
        let pods = concerned.iter().take(MOST_NAMED).map(|(pod, _)| (*pod).to_owned()).collect();
        Some(Self { state, trouble, nodes: concerned.len(), of: heard.nodes, pods })
    }
}

#[cfg(test)]
impl Flow {
    /// What the pods `pod-0`, `pod-1` and so on say.
    pub(crate) fn of_pods(verdicts: &[&weir_observe::Verdict]) -> Self {
        let id = PipelineId::new(weir_plan::Signal::Traces, "shop");
        let told = |verdict: &weir_observe::Verdict| Told::from(BTreeMap::from([(id.clone(), verdict.clone())]));
        let pods: Vec<_> = (0..)
            .zip(verdicts.iter().copied())
            .map(|(number, verdict)| (format!("pod-{number}"), told(verdict)))
            .collect();
        let mut heard = Heard::default();
        for (pod, told) in &pods {
            told.each().for_each(|(_, delivers, troubled)| heard.add(pod, delivers, troubled));
        }
        Self::of(&heard)
    }
}

#[cfg(test)]
mod tests {
    use weir_observe::{BeforeBooks, EarlyLoss, Roles, Verdict};
    use weir_plan::Signal;

    use super::*;

    fn verdict(state: State, delivers: bool) -> Verdict {
        let amounts = Amounts { delivered: 10, rejected: 5, ..Amounts::default() };
        let kept = Kept { items: 7, disk_free_bytes: Some(9), full_in_seconds: Some(60), ..Kept::default() };
        let words = state.as_str().to_owned();
        let trouble = Trouble { state, since: 1000, amounts, kept, words, ..Trouble::default() };
        let trouble = (state != State::Healthy).then(|| Box::new(trouble));
        Verdict { roles: Roles { gateway: true, agent: false }, delivers, trouble }
    }

    #[test]
    fn troubles_of_nodes_are_put_together() {
        let [one, other] = [verdict(State::SomeDropped, true), verdict(State::BufferFilling, true)];
        let mut earlier = verdict(State::SomeDropped, true);
        earlier.trouble.as_mut().unwrap().since = 900;
        let found = Flow::of_pods(&[&one, &verdict(State::Healthy, true), &other, &earlier]).gateway.unwrap();
        assert_eq!((found.state, found.nodes, found.of), (State::SomeDropped, 3, 4));
        assert_eq!(found.pods, ["pod-0", "pod-2", "pod-3"]);
        let Trouble { since, amounts, kept, words, .. } = found.trouble;
        assert_eq!((since, amounts.delivered, amounts.rejected, kept.items), (900, 30, 15, 21));
        assert_eq!((words.as_str(), kept.full_in_seconds), ("some_dropped", Some(60)));
        assert_eq!(kept.disk_free_bytes, Some(9), "the disks of all of them are known");
    }

    /// What nodes lost before it came into their books is lost like all else; the reason is that of the node that lost most.
    #[test]
    fn what_nodes_lose_before_it_is_in_books_is_put_together() {
        let of = |items, last| {
            let amounts = Amounts { delivered: 100, before_books: BeforeBooks { items, last }, ..Amounts::default() };
            let trouble = Trouble { state: State::SomeDropped, amounts, ..Trouble::default() };
            let (roles, trouble) = (Roles { gateway: false, agent: true }, Some(Box::new(trouble)));
            let verdict = Verdict { roles, delivers: true, trouble };
            // As it is on the page of the node.
            serde_json::from_value::<Verdict>(serde_json::to_value(&verdict).unwrap()).unwrap()
        };
        let (few, many) = (of(3, EarlyLoss::Overwritten), of(40, EarlyLoss::Removed));
        let flow = Flow::of_pods(&[&few, &many]);
        let (found, none) = (flow.agent.unwrap(), flow.gateway);
        assert_eq!((found.state, found.nodes, none.is_none()), (State::SomeDropped, 2, true));
        assert_eq!(found.trouble.amounts.before_books, BeforeBooks { items: 43, last: EarlyLoss::Removed });
        assert_eq!(found.trouble.amounts.lost(), 43);
    }

    /// While another node delivers, not all is dropped. One that has just begun to deliver again is no other node.
    #[test]
    fn all_is_dropped_when_no_node_delivers() {
        let cases = [
            (State::AllDropped, State::Healthy, true, State::SomeDropped),
            (State::AllDropped, State::Healthy, false, State::AllDropped),
            (State::AllDropped, State::NothingDelivered, true, State::AllDropped),
            (State::NothingDelivered, State::Healthy, true, State::BufferFilling),
            (State::NothingDelivered, State::Healthy, false, State::NothingDelivered),
        ];
        for (state, other, delivers, expected) in cases {
            let found = Flow::of_pods(&[&verdict(state, false), &verdict(other, delivers)]).gateway.unwrap();
            assert_eq!((found.state, found.trouble.state), (expected, state), "{other:?}");
        }
    }

    /// What is worst on a node need not be what is worst for all.
    #[test]
    fn the_worst_for_all_is_told() {
        let found =
            Flow::of_pods(&[&verdict(State::NothingDelivered, false), &verdict(State::SomeDropped, true)]).gateway;
        let found = found.unwrap();
        assert_eq!((found.state, found.trouble.state, found.nodes), (State::SomeDropped, State::SomeDropped, 2));
    }

    /// Each name takes memory for as long as the trouble lasts.
    #[test]
    fn the_first_three_pods_are_named() {
        let trouble = verdict(State::SomeDropped, true);
        let found = Flow::of_pods(&[&verdict(State::Healthy, true), &trouble, &trouble, &trouble, &trouble]).gateway;
        let found = found.unwrap();
        assert_eq!((found.nodes, found.of), (4, 5));
        assert_eq!(found.pods, ["pod-1", "pod-2", "pod-3"]);
    }

    #[test]
    fn parts_are_told_apart() {
        let mut of_agent = verdict(State::AllDropped, false);
        of_agent.roles = Roles { gateway: false, agent: true };
        let mut throttled = verdict(State::Throttling, true);
        throttled.roles = Roles { gateway: true, agent: true };
        let Flow { gateway, agent } = Flow::of_pods(&[&of_agent, &throttled]);
        assert_eq!(gateway.unwrap().state, State::Throttling);
        assert_eq!(agent.unwrap().state, State::SomeDropped, "the other one delivers");
    }

    /// A round in which these pods were asked.
    fn one_round<'a>(
        said: &mut Said,
        mut answers: BTreeMap<String, Answer>,
        asked: impl Iterator<Item = &'a PodState>,
    ) {
        for (pod, answer) in &mut answers {
            said.hear(pod, std::mem::take(&mut answer.pipelines));
        }
        said.end_round(&answers, asked);
    }

    fn pod(name: &str) -> PodState {
        PodState { name: name.to_owned(), ready: true, ..PodState::default() }
    }

    #[test]
    fn what_a_node_said_stays_for_a_while_and_is_forgotten_with_it() {
        let shop = PipelineId::new(Signal::Traces, "shop");
        let mut said = Said::default();
        let a = pod("a");
        let mut take = |says: Option<State>, is_there: bool| {
            let answer = |state| Answer {
                pipelines: BTreeMap::from([(shop.clone(), verdict(state, false))]).into(),
                ..Answer::default()
            };
            let answers = says.map(|state| ("a".to_owned(), answer(state))).into_iter().collect();
            one_round(&mut said, answers, is_there.then_some(&a).into_iter());
            said.flows().contains_key(&shop)
        };
        assert!(take(Some(State::AllDropped), true));
        assert!((1..ROUNDS).all(|_| take(None, true)), "some rounds are missed easily");
        assert!(!take(None, true));
        assert!(take(Some(State::AllDropped), true));
        assert!(!take(Some(State::Healthy), true));
        assert!(take(Some(State::AllDropped), true));
        assert!(!take(None, false));
    }

    /// What is decided in the middle of a round is decided from the one before, and what is new wakes whoever decides.
    #[test]
    fn what_is_heard_counts_when_the_round_ends() {
        let shop = PipelineId::new(Signal::Traces, "shop");
        let told = |state| Told::from(BTreeMap::from([(shop.clone(), verdict(state, true))]));
        let (mut said, a) = (Said::default(), pod("a"));
        let answers = BTreeMap::from([("a".to_owned(), Answer::default())]);
        assert!(said.end_round(&BTreeMap::new(), [&a].into_iter()), "it has come");
        for (state, is_new) in [(State::Healthy, true), (State::SomeDropped, true), (State::SomeDropped, false)] {
            let before = (said.flows().clone(), said.delivering().clone(), said.probing());
            said.hear("a", told(state));
            assert_eq!((said.flows().clone(), said.delivering().clone(), said.probing()), before);
            assert_eq!(said.end_round(&answers, [&a].into_iter()), is_new, "{state:?}");
            assert_eq!(said.flows().contains_key(&shop), state == State::SomeDropped);
            assert_eq!((said.delivering().len(), said.probing()[&Workload::Node].answer), (1, 1));
        }
    }

    #[test]
    fn nodes_that_do_not_answer_are_counted_after_a_while() {
        let mut said = Said::default();
        let mut round = |pods: &[&str], answers: &[&str]| {
            let pods: Vec<_> = pods.iter().map(|name| pod(name)).collect();
            let answers = answers.iter().map(|name| ((*name).to_owned(), Answer::default())).collect();
            one_round(&mut said, answers, pods.iter());
            let Probing { answer, silent } = said.probing().remove(&Workload::Node).unwrap_or_default();
            (answer, silent)
        };
        assert_eq!(round(&["a", "b", "c"], &["a", "b"]), (2, 0), "c has just come");
        assert!((1..ROUNDS).all(|_| round(&["a", "b", "c"], &["a"]) == (2, 0)));
        assert_eq!(round(&["a", "b", "c"], &["a"]), (1, 2));
        assert_eq!(round(&["a", "b", "c"], &["a", "b", "c"]), (3, 0));
        // Pods that are replaced: those that come have not been asked, and those that went were well.
        assert_eq!(round(&["d"], &[]), (3, 0));
        assert!((2..ROUNDS).all(|_| round(&["d"], &["d"]) == (4, 0)));
        assert_eq!(round(&["d"], &["d"]), (1, 0));
    }
}
