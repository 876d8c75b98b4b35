//! What nodes say of their pipelines, as it is kept: of a thousand nodes with a thousand pipelines, that is a million.
//!
//! What a node says of a pipeline that is well takes a byte, whether it delivers, because the names are in one list for
//! all nodes that have the same pipelines. So a million takes 1 MB. A trouble takes 248 bytes, and its words, which are
//! shared where nodes say the same. So 100,000 troubles, such as 100 pipelines that are in trouble on each of 1,000
//! nodes, take 25 MB, and 23 MB more for words of 200 characters if they differ on each node.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::iter::successors;
use std::sync::Arc;

use weir_observe::{Roles, Trouble, Verdict};
use weir_plan::PipelineId;

/// Of the words of all troubles of a node, so many characters are kept: all of 64 pipelines, and the beginning of each
/// where there are more.
const MOST_CHARS: usize = 64 << 10;
/// Nobody says more.
const MOST_CHARS_OF_ONE: usize = 1 << 10;

/// What a node says of its pipelines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// All of them, in the order of their names.
    pipelines: Arc<[PipelineId]>,
    /// Whether it delivers something, of each of them.
    delivers: Box<[bool]>,
    /// Those with a trouble, in the same order.
    troubled: Box<[Troubled]>,
}

/// A trouble of a pipeline on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Troubled {
    /// The place of the pipeline in the list.
    place: usize,
    /// Whose data it is about.
    pub(crate) roles: Roles,
    /// Without words.
    pub(crate) trouble: Trouble,
    pub(crate) words: Arc<str>,
}

impl From<BTreeMap<PipelineId, Verdict>> for Told {
    fn from(verdicts: BTreeMap<PipelineId, Verdict>) -> Self {
        let delivers = verdicts.values().map(|verdict| verdict.delivers).collect();
        let most_chars = most_chars(verdicts.values().filter(|verdict| verdict.trouble.is_some()).count());
        let (mut pipelines, mut troubled) = (Vec::with_capacity(verdicts.len()), Vec::new());
        for (place, (id, verdict)) in verdicts.into_iter().enumerate() {
            pipelines.push(id);
            troubled.extend(Troubled::of(place, verdict, most_chars));
        }
        Self { pipelines: pipelines.into(), delivers, troubled: troubled.into() }
    }
}

impl Troubled {
    fn of(place: usize, verdict: Verdict, most_chars: usize) -> Option<Self> {
        let mut trouble = *verdict.trouble?;
        let words: String = std::mem::take(&mut trouble.words).chars().take(most_chars).collect();
        Some(Self { place, roles: verdict.roles, trouble, words: words.into() })
    }
}

/// How much is kept of the words of each of so many troubles. It is halved, so that it seldom changes while they come
/// and go: otherwise statuses would change with it.
fn most_chars(troubles: usize) -> usize {
    let mut halved = successors(Some(MOST_CHARS_OF_ONE), |chars| (*chars > 0).then_some(chars / 2));
    halved.find(|chars| chars.saturating_mul(troubles) <= MOST_CHARS).unwrap_or_default()
}

impl Told {
    /// Each pipeline, whether it delivers, and its trouble if it has one.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&PipelineId, bool, Option<&Troubled>)> {
        let mut troubled = self.troubled.iter().peekable();
        self.pipelines
            .iter()
            .zip(self.delivers.iter())
            .enumerate()
            .map(move |(place, (id, delivers))| (id, *delivers, troubled.next_if(|troubled| troubled.place == place)))
    }
}

/// What answers of a round have in common: most nodes have the same pipelines, and backends say the same to them.
#[derive(Debug, Default)]
pub(crate) struct Common {
    lists: HashSet<Arc<[PipelineId]>>,
    words: HashSet<Arc<str>>,
}

impl Common {
    /// From now on a node shares with others what is the same.
    pub(crate) fn share(&mut self, told: &mut Told) {
        share(&mut self.lists, &mut told.pipelines);
        told.troubled.iter_mut().for_each(|troubled| share(&mut self.words, &mut troubled.words));
    }
}

/// Takes the value that is there already, if there is an equal one.
fn share<T: Eq + Hash + ?Sized>(known: &mut HashSet<Arc<T>>, value: &mut Arc<T>) {
    if let Some(same) = known.get(&**value) {
        *value = Arc::clone(same);
    } else {
        known.insert(Arc::clone(value));
    }
}

#[cfg(test)]
mod tests {
    use weir_observe::State;
    use weir_plan::Signal;

    use super::*;

    /// What a node with so many pipelines says, of which the first few are in trouble.
    fn told(common: &mut Common, pipelines: usize, troubles: usize, words: &str) -> Told {
        let verdict = |number: usize| {
            let trouble = Trouble { state: State::SomeDropped, words: words.to_owned(), ..Trouble::default() };
            let trouble = (number < troubles).then(|| Box::new(trouble));
            Verdict { delivers: number % 2 == 1, trouble, ..Verdict::default() }
        };
        let id = |number: usize| PipelineId::new(Signal::Traces, format!("p{number:04}"));
        let verdicts: BTreeMap<_, _> = (0..pipelines).map(|number| (id(number), verdict(number))).collect();
        let mut told = Told::from(verdicts);
        common.share(&mut told);
        told
    }

    /// What there is on the heap beside the shared list is a byte for each pipeline.
    #[test]
    fn pipelines_that_are_well_take_a_byte_on_each_node() {
        let mut common = Common::default();
        let nodes: Vec<_> = (0..100).map(|_| told(&mut common, 1000, 0, "")).collect();
        assert_eq!((common.lists.len(), common.words.len()), (1, 0));
        for node in &nodes {
            assert!(Arc::ptr_eq(&node.pipelines, &nodes[0].pipelines));
            assert_eq!((size_of_val(&*node.delivers), size_of_val(&*node.troubled)), (1000, 0));
        }
        let other = told(&mut common, 1001, 0, "");
        assert_eq!((common.lists.len(), other.pipelines.len()), (2, 1001));
    }

    #[test]
    fn troubles_have_a_fixed_size_and_share_their_words() {
        let mut common = Common::default();
        let nodes: Vec<_> = (0..100).map(|_| told(&mut common, 1000, 10, "503: overloaded")).collect();
        assert_eq!((common.lists.len(), common.words.len()), (1, 1));
        for node in &nodes {
            assert!(size_of_val(&*node.troubled) <= 10 * 248, "as the documentation says");
            let each: Vec<_> = node.each().collect();
            assert_eq!(each.len(), 1000);
            let of = |place: usize| (each[place].0.name.as_str(), each[place].1, each[place].2.is_some());
            assert_eq!((of(0), of(9)), (("p0000", false, true), ("p0009", true, true)));
            assert_eq!((of(10), of(999)), (("p0010", false, false), ("p0999", true, false)));
            assert!(each[..10].iter().all(|(_, _, of)| of.is_some_and(|of| &*of.words == "503: overloaded")));
        }
    }

    #[test]
    fn of_very_many_troubles_the_beginning_of_words_is_kept() {
        let long = "x".repeat(520);
        let kept = |troubles| {
            let told = told(&mut Common::default(), 1000, troubles, &long);
            told.troubled.iter().map(|troubled| troubled.words.len()).max()
        };
        assert_eq!(kept(64), Some(520));
        assert_eq!((kept(100), kept(1000)), (Some(512), Some(64)));
    }
}
