//! The walk over a request: from resource to scope to item and what is in it, one visit for each thing of a context.
//!
//! A message is left after everything in it. Leaving it writes its changes and its new length as patches; what was
//! neither changed nor dropped leaves no trace, so that a request without changes is never copied (OTTL-3).

use weir_otlp::cursor::Fields;
use weir_otlp::field::{resource_data, span, sum};

use crate::context::{Context, Level, PointKind};
use crate::patch::{Patches, Place};
use crate::scene::Scene;
use weir_otlp::Signal;

/// Number of the resource in `ResourceSpans` and its like, and of the scope in `ScopeSpans` and its like.
const HEAD: u32 = resource_data::RESOURCE;
/// Number of the scopes in `ResourceSpans` and its like, and of the items in `ScopeSpans` and its like.
pub(crate) const CHILDREN: u32 = resource_data::SCOPES;
/// Number of the data points in `Gauge` and its like.
const POINTS: u32 = sum::DATA_POINTS;
/// Number of the events in a span.
const EVENTS: u32 = span::EVENTS;

/// What becomes of a message.
enum Fate {
    /// It stays; its body grew by so many bytes.
    Kept(isize),
    Dropped,
}

/// The result of a visit: the number of the condition that drops what was visited, if one does.
pub(crate) type DroppedBy = Option<usize>;

/// A walk that calls `visit` for everything of one context.
pub(crate) struct Walk<'a, 'p, F> {
    pub(crate) scene: Scene<'a>,
    pub(crate) signal: Signal,
    pub(crate) context: Context,
    /// Whether visits may drop, and messages left empty go away.
    pub(crate) drops: bool,
    /// Whether statements look at the points before the current one.
    pub(crate) remembers_points: bool,
    /// Whether to keep what is visited.
    pub(crate) visit: F,
    pub(crate) patches: Patches<'p>,
    /// Spans, data points or log records dropped, by condition.
    pub(crate) dropped: Vec<u64>,
}

impl<'a, F: FnMut(&mut Scene<'a>) -> DroppedBy> Walk<'a, '_, F> {
    /// Walks the whole request.
    pub(crate) fn run(&mut self) {
        let request = Place { key: 0, start: 0, end: self.scene.request.len() };
        self.children(request, HEAD, Self::resource_data);
    }

    /// Calls `each` for the messages in a repeated field. Returns by how much the body grew, and how many messages are
    /// left.
    fn children(&mut self, parent: Place, number: u32, each: fn(&mut Self, Place) -> Fate) -> (isize, usize) {
        let request = self.scene.request;
        let (mut grown, mut kept) = (0, 0);
        for field in Fields::starting_at(&request[..parent.end], parent.start) {
            if field.number != number || field.body().is_none() {
                continue;
            }
            if self.patches.lack_room() {
                break;
            }
            let place = Place { key: field.start, start: field.body_start(), end: field.end };
            let mark = self.patches.enter();
            match each(self, place) {
                Fate::Kept(inner) => {
                    let field = self.patches.leave(mark, request, place, inner);
                    self.scene.count_length(field - inner);
                    grown += field;
                    kept += 1;
                }
                Fate::Dropped => {
                    self.patches.forget(mark);
                    grown += self.patches.remove(place.field());
                }
            }
        }
        (grown, kept)
    }

    /// The last message in a singular field.
    fn message(&self, parent: Place, number: impl Fn(u32) -> bool) -> Option<(u32, Place)> {
        let fields = Fields::starting_at(&self.scene.request[..parent.end], parent.start);
        let found = fields.filter(|field| number(field.number) && field.body().is_some()).last()?;
        Some((found.number, Place { key: found.start, start: found.body_start(), end: found.end }))
    }

    fn visit(&mut self) -> DroppedBy {
        self.scene.begin_visit();
        (self.visit)(&mut self.scene)
    }

    /// Writes the changes of the message at a level; by how much its body grew.
    fn leave(&mut self, level: Level, place: Place) -> isize {
        let draft = self.scene.message(level);
        if draft.is_changed() { draft.finish(place, &mut self.patches) } else { 0 }
    }

    /// Writes the changes of a message that is a singular field, which may have been absent so far.
    fn leave_head(&mut self, level: Level, parent: Place) -> isize {
        let request = self.scene.request;
        let draft = self.scene.message(level);
        if !draft.is_changed() {
            return 0;
        }
        let (inner, field) = match draft.place() {
            Some(place) => {
                let inner = draft.finish(place, &mut self.patches);
                (inner, self.patches.resize(request, place, inner))
            }
            None => {
                let start = parent.start;
                let field = self.patches.replace(start..start, |out| {
                    let open = out.open(HEAD, 64);
                    draft.encode_new(out);
                    out.close(open);
                });
                (draft.grown(), field)
            }
        };
        self.scene.count_length(field - inner);
        field
    }

    fn begin_head(&mut self, level: Level, parent: Place, map: u32) {
        let place = self.message(parent, |number| number == HEAD).map(|(_, place)| place);
        self.scene.begin(level, place, map);
    }

    fn resource_data(&mut self, place: Place) -> Fate {
        self.scene.begin(Level::ResourceData, Some(place), 0);
        self.begin_head(Level::Resource, place, 1);
        let mut grown = 0;
        if self.context == Context::Resource {
            let is_empty = || self.message(place, |number| number == CHILDREN).is_none();
            if self.drops && is_empty() {
                return Fate::Dropped;
            }
            if let Some(condition) = self.visit() {
                return self.drop_items(condition, self.items_of_resource(place));
            }
        } else {
            let (inner, kept) = self.children(place, CHILDREN, Self::scope_data);
            if self.drops && kept == 0 {
                return Fate::Dropped;
            }
            grown = inner;
        }
        grown += self.leave_head(Level::Resource, place);
        Fate::Kept(grown + self.leave(Level::ResourceData, place))
    }

    fn scope_data(&mut self, place: Place) -> Fate {
        self.scene.begin(Level::ScopeData, Some(place), 0);
        self.begin_head(Level::Scope, place, 3);
        let (mut grown, mut added) = (0, Vec::new());
        if self.context == Context::Scope {
            let is_empty = || self.message(place, |number| number == CHILDREN).is_none();
            if self.drops && is_empty() {
                return Fate::Dropped;
            }
            if let Some(condition) = self.visit() {
                return self.drop_items(condition, self.items_of_scope(place));
            }
        } else {
            let (inner, kept) = self.children(place, CHILDREN, Self::item);
            if self.drops && kept == 0 {
                return Fate::Dropped;
            }
            grown = inner;
            added = self.added_metrics();
        }
        grown += self.leave_head(Level::Scope, place);
        // The scope may be the last that is there: what is new in it comes before what is new behind it.
        for body in added {
            grown += self.patches.replace(place.end..place.end, |out| out.bytes(CHILDREN, &body));
        }
        Fate::Kept(grown + self.leave(Level::ScopeData, place))
    }

    fn item(&mut self, place: Place) -> Fate {
        let attributes = match self.signal {
            Signal::Traces => 9,
            Signal::Metrics => 12,
            Signal::Logs => 6,
        };
        self.scene.begin(Level::Item, Some(place), attributes);
        match self.signal {
            Signal::Metrics => self.metric(place),
            Signal::Traces if self.context == Context::SpanEvent => {
                self.scene.leaf_index = -1;
                let (grown, _) = self.children(place, EVENTS, Self::event);
                Fate::Kept(grown + self.leave(Level::Item, place))
            }
            Signal::Traces | Signal::Logs => match self.visit() {
                Some(condition) => self.drop_items(condition, 1),
                None => Fate::Kept(self.leave(Level::Item, place)),
            },
        }
    }

    fn event(&mut self, place: Place) -> Fate {
        self.leaf(place, 3)
    }

    fn leaf(&mut self, place: Place, attributes: u32) -> Fate {
        self.scene.leaf_index += 1;
        self.scene.begin(Level::Leaf, Some(place), attributes);
        match self.visit() {
            // An event or exemplar is no item.
            Some(_) => Fate::Dropped,
            None => Fate::Kept(self.leave(Level::Leaf, place)),
        }
    }

    fn metric(&mut self, place: Place) -> Fate {
        let data = self.message(place, |number| PointKind::of_data(number).is_some());
        self.scene.begin_metric(data);
        let mut grown = 0;
        if self.context == Context::Metric {
            if let Some(condition) = self.visit() {
                return self.drop_items(condition, self.items_of_metric(place));
            }
        } else if let Some((_, data)) = data {
            let (inner, kept) = self.children(data, POINTS, Self::point);
            if self.drops && kept == 0 {
                return Fate::Dropped;
            }
            grown = inner;
        }
        let (grown, length) = self.scene.write_metric(place, grown, &mut self.patches);
        self.scene.count_length(length);
        Fate::Kept(grown)
    }

    /// Metrics that statements added. They come behind those of the scope, and statements see them as well.
    fn added_metrics(&mut self) -> Vec<Vec<u8>> {
        let mut added = Vec::new();
        for index in 0.. {
            let Some(body) = self.scene.added_metric(index) else { break };
            let request = std::mem::replace(&mut self.scene.request, body);
            let patches = std::mem::take(&mut self.patches);
            self.item(Place { key: 0, start: 0, end: body.len() });
            let own = std::mem::replace(&mut self.patches, patches);
            self.scene.request = request;
            added.push(own.apply_within(body, 0..body.len()));
        }
        self.scene.forget_added_metrics();
        added
    }

    fn point(&mut self, place: Place) -> Fate {
        let kind = self.scene.point;
        self.scene.begin(Level::Point, Some(place), kind.attributes());
        if self.context == Context::Exemplar {
            self.scene.leaf_index = -1;
            let (grown, _) = self.children(place, kind.exemplars(), |walk, place| walk.leaf(place, 7));
            return Fate::Kept(grown + self.leave(Level::Point, place));
        }
        if let Some(condition) = self.visit() {
            return self.drop_items(condition, 1);
        }
        self.scene.leave_point(place, self.remembers_points);
        Fate::Kept(self.leave(Level::Point, place))
    }

    fn drop_items(&mut self, condition: usize, items: u64) -> Fate {
        self.dropped[condition] += items;
        Fate::Dropped
    }

    fn sum(&self, parent: Place, number: u32, count: fn(&Self, Place) -> u64) -> u64 {
        let fields = Fields::starting_at(&self.scene.request[..parent.end], parent.start);
        let messages = fields.filter(|field| field.number == number && field.body().is_some());
        messages.map(|field| count(self, Place { key: field.start, start: field.body_start(), end: field.end })).sum()
    }

    fn items_of_resource(&self, place: Place) -> u64 {
        self.sum(place, CHILDREN, Self::items_of_scope)
    }

    fn items_of_scope(&self, place: Place) -> u64 {
        match self.signal {
            Signal::Metrics => self.sum(place, CHILDREN, Self::items_of_metric),
            Signal::Traces | Signal::Logs => self.sum(place, CHILDREN, |_, _| 1),
        }
    }

    fn items_of_metric(&self, place: Place) -> u64 {
        let data = self.message(place, |number| PointKind::of_data(number).is_some());
        data.map_or(0, |(_, data)| self.sum(data, POINTS, |_, _| 1))
    }
}
