//! The walk over a request that gathers all changes to it.

use std::net::IpAddr;
use std::sync::Arc;

use weir_otlp::Signal;
use weir_otlp::common::{Message, Resource, Scope};
use weir_otlp::conventions;
use weir_otlp::cursor::WireType;
use weir_otlp::field::{log_record, request, resource_data, scope_data, short_key};
use weir_otlp::splice::Edit;
use weir_plan::{Enrichment, ServiceEnrichment};

use crate::access_log::{self, Marks};
use crate::attributes::{OF_RESOURCE, texts};
use crate::changes::{Changes, Left, NoRoom};
use crate::istio;
use crate::known::Known;
use crate::metric_noise;
use crate::pods::{PodIndex, Pods};
use crate::raw;
use crate::resource::{self, Sender};

/// Knows what to add to requests.
#[derive(Debug)]
pub struct Enricher {
    enrichment: Arc<Enrichment>,
    pods: Arc<dyn Pods>,
}

/// How a request came in.
#[derive(Debug, Clone)]
pub struct Arrival {
    peer: Option<IpAddr>,
    /// When, as the field of a log record.
    observed: [u8; 9],
    /// What was known then. However often the request is walked over, the result is the same.
    pods: Arc<PodIndex>,
    added: Added,
    /// The request is of metrics that Istio's proxies show.
    is_istio: bool,
}

/// What resources get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Added {
    /// Facts about the pod, and a name of the service.
    Facts,
    /// Everything that is known of the pod, in the shape of raw container logs.
    Raw,
    /// What holds for the whole cluster.
    OfCluster,
}

impl Arrival {
    /// The request is of metrics that Istio's proxies show, some of which are noise.
    pub fn of_istio(self) -> Self {
        Self { is_istio: true, ..self }
    }

    /// The request is of container logs in their raw shape: its resources get everything that is known of the pod, and
    /// its records stay as they are.
    pub fn raw(self) -> Self {
        Self { added: Added::Raw, ..self }
    }

    /// The request is about nodes and workloads, and not from pods: its resources get only what holds for the whole
    /// cluster.
    pub fn of_cluster(self) -> Self {
        Self { added: Added::OfCluster, ..self }
    }
}

/// What happens to spans, log records and data points of Istio's proxies that record traffic of telemetry itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// They stay.
    Keep,
    /// They are removed, and scopes and resources that are empty without them.
    Drop,
}

impl Enricher {
    /// Adds what `enrichment` says, from what `pods` knows.
    pub fn new(enrichment: Enrichment, pods: Arc<dyn Pods>) -> Self {
        Self { enrichment: Arc::new(enrichment), pods }
    }

    /// A request from this address, if there is one, at this time, in nanoseconds since the Unix epoch.
    pub fn arrival(&self, peer: Option<IpAddr>, unix_nanos: u64) -> Arrival {
        let mut observed = [short_key(log_record::OBSERVED_TIME_UNIX_NANO, WireType::Fixed64); 9];
        observed[1..].copy_from_slice(&unix_nanos.to_le_bytes());
        let (peer, pods) = (peer.map(|peer| peer.to_canonical()), self.pods.now());
        Arrival { peer, observed, pods, added: Added::Facts, is_istio: false }
    }

    /// What changes in a valid request: enrichment and, if wanted, the removal of noise, which is decided on what the
    /// resource says with enrichment. The edits take at most `max_bytes`; the request grows by no more than that.
    ///
    /// Whether two pipelines with different wishes about noise need different requests shows in [`Changes::noise`]: if
    /// it is 0, they do not.
    ///
    /// # Errors
    /// [`NoRoom`] when `max_bytes` are too little.
    pub fn edits<'a>(
        &self,
        signal: Signal,
        request: &'a [u8],
        arrival: &'a Arrival,
        noise: Noise,
        max_bytes: usize,
    ) -> Result<Changes<'a>, NoRoom> {
        let mut changes = Changes::new(max_bytes);
        let walk = Walk { enricher: self, signal, request, arrival, noise };
        for holder in Message::request(request).messages(request::RESOURCES) {
            walk.resource(&mut changes, holder)?;
        }
        Ok(changes)
    }

    /// The facts about the sender of a resource. The first of address, uid and peer that is given decides, even when
    /// no pod is known by it: whoever forwards a resource is not its origin.
    fn known<'a>(&self, resource: Option<Resource<'_>>, arrival: &'a Arrival) -> &'a Known {
        const KEYS: [&str; 3] = ["k8s.pod.ip", conventions::POD_UID, conventions::NODE_NAME];
        let [ip, uid, node] = resource.map_or([""; 3], |resource| texts(resource.0, OF_RESOURCE, KEYS));
        let Arrival { peer, pods, .. } = arrival;
        let pod = match (ip, uid) {
            ("", "") => peer.and_then(|ip| pods.by_ip(ip)),
            ("", uid) => pods.by_uid(uid),
            (ip, _) => ip.parse::<IpAddr>().ok().and_then(|ip| pods.by_ip(ip.to_canonical())),
        };
        pod.or_else(|| pods.by_node(node)).unwrap_or_else(|| pods.unknown())
    }
}

/// What an allocator takes for itself beside a field.
const ALLOCATION: usize = 16;

/// One request under way. `ResourceSpans` and its sisters are called holders here: they hold a resource and its items.
struct Walk<'e, 'a> {
    enricher: &'e Enricher,
    signal: Signal,
    request: &'a [u8],
    arrival: &'a Arrival,
    noise: Noise,
}

impl<'a> Walk<'_, 'a> {
    fn resource(&self, changes: &mut Changes<'a>, holder: Message<'a>) -> Result<(), NoRoom> {
        let resource = holder.message(resource_data::RESOURCE).map(Resource);
        let of_cluster = self.arrival.added == Added::OfCluster;
        let known = if of_cluster { self.arrival.pods.unknown() } else { self.enricher.known(resource, self.arrival) };
        if self.arrival.added == Added::Raw {
            return raw::add(changes, resource, &known.raw(&self.enricher.enrichment));
        }
        let facts = known.facts(&self.enricher.enrichment);
        let sender = Sender { request: self.request, resource, facts: &facts };
        let left = changes.inside(Message::request(self.request), holder, |changes| {
            let (mut proxied, since) = (false, changes.edits.len());
            let left = self.scopes(changes, holder, &sender, &mut proxied)?;
            let own = resource.map(|resource| resource.0);
            let mode = (!of_cluster).then_some(self.enricher.enrichment.service);
            let enriched =
                resource::enriched(&sender, mode, self.drops_service(proxied), |bytes| changes.check(bytes))?;
            if let Some(field) = enriched {
                replace_before(changes, since, holder, own, field)?;
            }
            Ok(left)
        })?;
        changes.noise += left.gone;
        Ok(())
    }

    fn drops_service(&self, proxied: bool) -> bool {
        proxied && self.enricher.enrichment.service == ServiceEnrichment::Otel
    }

    /// Looks at items, as far as there is a rule for them.
    fn scopes(
        &self,
        changes: &mut Changes<'a>,
        holder: Message<'a>,
        sender: &Sender<'_>,
        proxied: &mut bool,
    ) -> Result<Left, NoRoom> {
        let mut left = Left::default();
        if !self.has_rules_for_items(holder) {
            return Ok(left);
        }
        for scope in holder.messages(resource_data::SCOPES) {
            left += changes.inside(holder, scope, |changes| match self.signal {
                Signal::Traces => self.spans(changes, scope, sender, proxied),
                Signal::Logs => self.records(changes, scope, sender),
                Signal::Metrics => metric_noise::remove(changes, scope),
            })?;
        }
        Ok(left)
    }

    fn has_rules_for_items(&self, holder: Message<'_>) -> bool {
        let looks_for_proxies =
            self.noise == Noise::Drop || self.enricher.enrichment.service == ServiceEnrichment::Otel;
        match self.signal {
            Signal::Traces => looks_for_proxies && istio::may_have_proxy_spans(&self.request[holder.range()]),
            Signal::Logs => true,
            Signal::Metrics => self.arrival.is_istio && self.noise == Noise::Drop,
        }
    }

    /// Removes noise from the spans of a scope, and tells whether any of them is from Istio's proxy.
    fn spans(
        &self,
        changes: &mut Changes<'a>,
        scope: Message<'a>,
        sender: &Sender<'_>,
        proxied: &mut bool,
    ) -> Result<Left, NoRoom> {
        let mut left = Left::default();
        for span in scope.messages(scope_data::ITEMS) {
            let proxy = istio::is_proxy_span(span);
            *proxied |= proxy;
            if proxy && self.noise == Noise::Drop && istio::is_noise_span(span, sender) {
                changes.push(Edit::remove(scope, span), 0)?;
                left.gone += 1;
            } else {
                left.kept += 1;
            }
        }
        Ok(left)
    }

    fn records(&self, changes: &mut Changes<'a>, scope: Message<'a>, sender: &Sender<'_>) -> Result<Left, NoRoom> {
        let mut left = Left::default();
        let (mut access_logs, since) = (false, changes.edits.len());
        for record in scope.messages(scope_data::ITEMS) {
            let marks = Marks::of(record);
            if marks.istio && self.noise == Noise::Drop && istio::is_noise_record(record, sender) {
                changes.push(Edit::remove(scope, record), 0)?;
                left.gone += 1;
                continue;
            }
            left.kept += 1;
            let observed = if marks.observed { &[][..] } else { &self.arrival.observed };
            if marks.istio {
                access_logs = true;
                changes.check(access_log::MOST_ADDED + record.range().len())?;
                replace(changes, scope, Some(record), access_log::record(self.request, record, observed))?;
            } else if !marks.observed {
                changes.push(Edit::append(record, observed), observed.len())?;
            }
        }
        if access_logs {
            let own = scope.message(scope_data::SCOPE);
            changes.check(access_log::MOST_ADDED + own.map_or(0, |own| own.range().len()))?;
            let made = access_log::scope(self.request, own.map(Scope));
            replace_before(changes, since, scope, own, made)?;
        }
        Ok(left)
    }
}

/// Puts an encoded field in the place of a message, or at the end of its holder when there is none.
fn replace<'a>(
    changes: &mut Changes<'a>,
    holder: Message<'a>,
    message: Option<Message<'a>>,
    field: Vec<u8>,
) -> Result<(), NoRoom> {
    let since = changes.edits.len();
    replace_before(changes, since, holder, message, field)
}

/// The same for a message that may come before others in its holder. The edits of these others were added since there
/// were `since` edits.
fn replace_before<'a>(
    changes: &mut Changes<'a>,
    since: usize,
    holder: Message<'a>,
    message: Option<Message<'a>>,
    field: Vec<u8>,
) -> Result<(), NoRoom> {
    let added = field.capacity() + ALLOCATION;
    let edit = match message {
        Some(message) => Edit::replace(holder, message, field),
        None => Edit::append(holder, field),
    };
    changes.push_before(since, edit, added)
}
