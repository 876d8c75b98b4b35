//! All pipelines of a process.

use std::collections::{BTreeMap, BTreeSet};

use weir_plan::PipelineId;

use crate::look::{Look, Moment};
use crate::pipeline::{Pipeline, Rhythm};
use crate::verdict::{State, Trouble, Verdict};

/// Judges pipelines by what is seen of them again and again.
#[derive(Debug)]
pub struct Monitor {
    rhythm: Rhythm,
    pipelines: BTreeMap<PipelineId, Pipeline>,
}

/// A pipeline whose state is another than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which one.
    pub pipeline: PipelineId,
    /// Its state before.
    pub before: State,
    /// What is wrong now; `None` when all is well again.
    pub trouble: Option<Trouble>,
}

impl Monitor {
    /// Of a process whose pipelines are looked at in this rhythm.
    pub fn new(rhythm: Rhythm) -> Self {
        Self { rhythm, pipelines: BTreeMap::new() }
    }

    /// Takes a look at all pipelines that there are; others are forgotten.
    pub fn look(&mut self, at: Moment, looks: &[(PipelineId, Look)]) -> Vec<Change> {
        let seen: BTreeSet<_> = looks.iter().map(|(id, _)| id).collect();
        self.pipelines.retain(|id, _| seen.contains(id));
        let mut changes = Vec::new();
        for (id, look) in looks {
            let Some(pipeline) = self.pipelines.get_mut(id) else {
                self.pipelines.insert(id.clone(), Pipeline::new(self.rhythm, at, look));
                continue;
            };
            let before = pipeline.verdict().state();
            pipeline.look(at, look);
            let verdict = pipeline.verdict();
            if verdict.state() != before {
                let trouble = verdict.trouble.as_deref().cloned();
                changes.push(Change { pipeline: id.clone(), before, trouble });
            }
        }
        changes
    }

    /// What is known of one; `None` if it was not there at the last look.
    pub fn verdict(&self, pipeline: &PipelineId) -> Option<&Verdict> {
        self.pipelines.get(pipeline).map(Pipeline::verdict)
    }

    /// What is known of all of them.
    pub fn verdicts(&self) -> impl Iterator<Item = (&PipelineId, &Verdict)> {
        self.pipelines.iter().map(|(id, pipeline)| (id, pipeline.verdict()))
    }
}
