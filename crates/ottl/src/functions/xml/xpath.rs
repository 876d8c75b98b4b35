//! Paths into XML documents: the part of XPath 1.0 that is used to select nodes of records.
//!
//! Absolute and relative paths, `//`, `|`; names, `*`, `@name`, `@*`, `.`, `..`, `text()`, `comment()`, `node()`; in
//! brackets positions, `last()`, paths, comparisons of a path with a text by `=` and `!=`, `contains`, `starts-with`,
//! `not`, `and` and `or`. Everything else is refused when a statement is compiled.

use super::tree::{Kind, Tree};
use crate::value::Failure;

mod parse;

pub(crate) use parse::parse;

/// The most nodes that one selection looks at. Paths in brackets could ask for the square of a document.
const MAX_VISITS: usize = 1 << 20;

/// Alternatives; all of them select.
#[derive(Debug)]
pub(crate) struct XPath(Vec<Path>);

#[derive(Debug)]
struct Path {
    absolute: bool,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    axis: Axis,
    test: Test,
    predicates: Vec<Predicate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    Child,
    Attribute,
    Own,
    Parent,
    DescendantOrOwn,
}

#[derive(Debug)]
enum Test {
    /// Of an element or an attribute.
    Name(String),
    /// Any element or attribute.
    Any,
    Text,
    Comment,
    Node,
}

#[derive(Debug)]
enum Predicate {
    Position(usize),
    Last,
    Exists(Path),
    Compare(Path, Relation, String),
    Not(Box<Predicate>),
    And(Box<Predicate>, Box<Predicate>),
    Or(Box<Predicate>, Box<Predicate>),
}

#[derive(Debug, Clone, Copy)]
enum Relation {
    Equals,
    Differs,
    Contains,
    StartsWith,
}

/// A node, or an attribute of one by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Selected {
    pub(super) node: usize,
    pub(super) attribute: Option<usize>,
}

impl Selected {
    fn node(node: usize) -> Self {
        Self { node, attribute: None }
    }
}

impl XPath {
    /// What the path selects, in the order of the document.
    ///
    /// # Errors
    /// When it has to look at too many nodes.
    pub(super) fn select(&self, tree: &Tree) -> Result<Vec<Selected>, Failure> {
        let mut search = Search { tree, visits: 0 };
        let mut all = Vec::new();
        for path in &self.0 {
            all.extend(search.path(path, Selected::node(0))?);
        }
        distinct(&mut all);
        Ok(all)
    }
}

fn distinct(selected: &mut Vec<Selected>) {
    selected.sort_unstable();
    selected.dedup();
}

struct Search<'t> {
    tree: &'t Tree,
    visits: usize,
}

impl Search<'_> {
    fn path(&mut self, path: &Path, from: Selected) -> Result<Vec<Selected>, Failure> {
        let mut found = vec![if path.absolute { Selected::node(0) } else { from }];
        for step in &path.steps {
            let mut next = Vec::new();
            let mut most = 2 * self.tree.0.len();
            for context in found {
                let mut candidates = self.candidates(step, context)?;
                for predicate in &step.predicates {
                    candidates = self.filtered(predicate, candidates)?;
                }
                next.extend(candidates);
                // The same nodes are found from many others.
                if next.len() > most {
                    distinct(&mut next);
                    most = 2 * next.len().max(self.tree.0.len());
                }
            }
            distinct(&mut next);
            found = next;
        }
        Ok(found)
    }

    fn visit(&mut self, nodes: usize) -> Result<(), Failure> {
        self.visits += nodes + 1;
        if self.visits > MAX_VISITS {
            return Err(Failure::text("the XPath looks at too many nodes of the document"));
        }
        Ok(())
    }

    /// The nodes that an axis leads to, if the test holds for them.
    fn candidates(&mut self, step: &Step, context: Selected) -> Result<Vec<Selected>, Failure> {
        let node = &self.tree.0[context.node];
        let of_attribute = context.attribute.is_some();
        let mut all = match step.axis {
            Axis::Own => vec![context],
            Axis::Parent if of_attribute => vec![Selected::node(context.node)],
            Axis::Parent if context.node == 0 => Vec::new(),
            Axis::Parent => vec![Selected::node(node.parent)],
            Axis::Child | Axis::Attribute if of_attribute => Vec::new(),
            Axis::Child => node.children.iter().copied().map(Selected::node).collect(),
            Axis::Attribute => {
                let attributes = 0..node.attributes.len();
                attributes.map(|index| Selected { node: context.node, attribute: Some(index) }).collect()
            }
            Axis::DescendantOrOwn => {
                let mut all = vec![context];
                let mut next = 0;
                while let Some(selected) = all.get(next).filter(|selected| selected.attribute.is_none()) {
                    all.extend(self.tree.0[selected.node].children.iter().copied().map(Selected::node));
                    next += 1;
                }
                all
            }
        };
        self.visit(all.len())?;
        all.retain(|selected| self.holds(&step.test, *selected));
        Ok(all)
    }

    fn holds(&self, test: &Test, selected: Selected) -> bool {
        let node = &self.tree.0[selected.node];
        let attribute = selected.attribute.and_then(|index| node.attributes.get(index));
        match (test, attribute) {
            (Test::Node, _) | (Test::Any, Some(_)) => true,
            (Test::Name(name), Some((other, _))) => name == other,
            (Test::Name(name), None) => node.kind == Kind::Element && node.data == *name,
            (Test::Any, None) => node.kind == Kind::Element,
            (Test::Text, None) => matches!(node.kind, Kind::Text | Kind::CharData),
            (Test::Comment, None) => node.kind == Kind::Comment,
            (Test::Text | Test::Comment, Some(_)) => false,
        }
    }

    fn filtered(&mut self, predicate: &Predicate, candidates: Vec<Selected>) -> Result<Vec<Selected>, Failure> {
        let count = candidates.len();
        let mut kept = Vec::new();
        for (position, candidate) in (1..).zip(candidates) {
            if self.applies(predicate, candidate, position, count)? {
                kept.push(candidate);
            }
        }
        Ok(kept)
    }

    fn applies(&mut self, predicate: &Predicate, at: Selected, position: usize, count: usize) -> Result<bool, Failure> {
        Ok(match predicate {
            Predicate::Position(wanted) => position == *wanted,
            Predicate::Last => position == count,
            Predicate::Exists(path) => !self.path(path, at)?.is_empty(),
            Predicate::Compare(path, relation, text) => {
                // A comparison holds for any node, a function looks at the first one.
                let most = if matches!(relation, Relation::Equals | Relation::Differs) { usize::MAX } else { 1 };
                for selected in self.path(path, at)?.into_iter().take(most) {
                    let value = value(self.tree, selected);
                    self.visit(value.len())?;
                    if relation.holds(&value, text) {
                        return Ok(true);
                    }
                }
                false
            }
            Predicate::Not(inner) => !self.applies(inner, at, position, count)?,
            Predicate::And(left, right) => {
                self.applies(left, at, position, count)? && self.applies(right, at, position, count)?
            }
            Predicate::Or(left, right) => {
                self.applies(left, at, position, count)? || self.applies(right, at, position, count)?
            }
        })
    }
}

impl Relation {
    fn holds(self, value: &str, text: &str) -> bool {
        match self {
            Self::Equals => value == text,
            Self::Differs => value != text,
            Self::Contains => value.contains(text),
            Self::StartsWith => value.starts_with(text),
        }
    }
}

/// The text of what was selected.
pub(super) fn value(tree: &Tree, selected: Selected) -> String {
    let node = &tree.0[selected.node];
    if let Some((_, value)) = selected.attribute.and_then(|index| node.attributes.get(index)) {
        return value.clone();
    }
    if node.kind == Kind::Comment {
        return node.data.clone();
    }
    let mut text = String::new();
    tree.inner_text(selected.node, &mut text);
    text
}
