//! `/api/now`: everything on one screen, as JSON.

use std::collections::BTreeMap;
use std::io::Write as _;

use serde::{Serialize, Serializer};
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::view::{
    AdmissionFigures, AnswerFigures, BackendFigures, BacklogFigures, BookFigures, CodeFigures, CredentialFigures,
    Ending, Expiry, HistogramFigures, HolderFigures, OrphanFigures, PartFigures, PipelineFigures, RetryFigures,
    RuleFigures, Snapshot, SourceFigures, TransportFigures,
};
use weir_engine::{Text, unix_nanos};
use weir_legible::{rfc3339_millis, rfc3339_seconds};

use crate::before_books;

/// See the module.
#[derive(Debug)]
pub(super) struct Now;

impl Page for Now {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let snapshot = asked.view.snapshot()?;
        serde_json::to_writer(&mut *body, &Whole::of(&snapshot)).ok()?;
        body.write_all(b"\n").ok()?;
        Some(Shown::JSON)
    }
}

/// Made of a snapshot as it is written: nothing of it is copied.
#[derive(Serialize)]
struct Whole<'a> {
    version: &'static str,
    /// When it was like this.
    at: String,
    uptime_seconds: f64,
    health: &'static str,
    /// Clients that are connected.
    connections: u64,
    /// Items that no pipeline takes, by signal.
    unclaimed: [u64; 3],
    /// What was lost before it came into any books.
    #[serde(serialize_with = "before_books::serialize")]
    before_books: &'a SourceFigures,
    /// Requests of clients that were refused, by reason.
    #[serde(serialize_with = "refusals")]
    refused_requests: &'a [TransportFigures; 2],
    #[serde(serialize_with = "pipelines")]
    pipelines: &'a [PipelineFigures],
    #[serde(serialize_with = "orphans")]
    orphans: &'a [OrphanFigures],
    memory: Memory<'a>,
    journal: Option<Journal>,
    container_logs: Option<ContainerLogs>,
    configuration: Configuration<'a>,
    cpu_seconds: f64,
    rss_bytes: u64,
}

impl<'a> Whole<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let Snapshot {
            uptime, health, receivers, pipelines, orphans, memory, journal, sources, reloads, process, ..
        } = snapshot;
        let journal = journal.as_ref().map(|of| Journal {
            disk_bytes: of.disk_bytes,
            disk_free_bytes: of.disk_free_bytes,
            segments: of.segments,
            failed: of.failed,
            damaged_items: of.damaged_items,
        });
        let container_logs = sources.container_logs.as_ref().map(|of| ContainerLogs {
            containers: of.containers,
            stuck: of.stuck,
            behind_bytes: of.bytes_behind,
            behind_seconds: of.most_behind.as_secs_f64(),
            lost_bytes: of.lost_bytes.iter().map(|(_, bytes)| bytes).sum(),
        });
        Self {
            version: env!("CARGO_PKG_VERSION"),
            at: rfc3339_millis(unix_nanos() / 1_000_000),
            uptime_seconds: uptime.as_secs_f64(),
            health: health.as_str(),
            connections: receivers.connections,
            unclaimed: receivers.unclaimed,
            before_books: sources,
            refused_requests: &receivers.transports,
            pipelines,
            orphans,
            memory: Memory {
                total_bytes: memory.total,
                parts: &memory.parts,
                payload_holders: &memory.payload_holders,
                admission: Admission::of(&memory.admission),
            },
            journal,
            container_logs,
            configuration: Configuration {
                taken_up_at: rfc3339_seconds(reloads.last_success),
                error: reloads.error.as_deref(),
            },
            cpu_seconds: process.cpu_seconds,
            rss_bytes: process.rss_bytes,
        }
    }
}

fn refusals<S: Serializer>(all: &&[TransportFigures; 2], to: S) -> Result<S::Ok, S::Error> {
    let [grpc, http] = *all;
    to.collect_map(grpc.refusals.iter().zip(&http.refusals).map(|((reason, one), (_, other))| (*reason, one + other)))
}

fn pipelines<S: Serializer>(all: &&[PipelineFigures], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(Line::of))
}

fn orphans<S: Serializer>(all: &&[OrphanFigures], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(|of| Orphan { pipeline: of.id.to_string(), books: Books::of(&of.books) }))
}

/// A pipeline, from where its data comes to where it goes.
#[derive(Serialize)]
struct Line<'a> {
    pipeline: String,
    signal: &'static str,
    /// Whether clients push to it, and whether an agent collects for it.
    pushed: bool,
    collected: bool,
    #[serde(serialize_with = "rules")]
    rules: &'a [RuleFigures],
    exporter: &'a str,
    books: Books<'a>,
    /// Of requests, before compression: before the rules, and those that the backend took.
    accepted_bytes: u64,
    delivered_bytes: u64,
    pending_bytes: u64,
    /// In memory although their clients were answered, and how much that may be: only without a data directory.
    held_bytes: usize,
    share_bytes: usize,
    oldest_seconds: f64,
    in_flight: u64,
    parked: u64,
    concurrency_limit: u64,
    retries: u64,
    retry_budget: RetryBudget,
    /// Whether one small request at a time finds out if the backend takes data again, and when the next one leaves.
    is_probing: bool,
    next_probe_seconds: Option<f64>,
    refused_items: u64,
    /// Since the start, and lately.
    latency: Latency,
    latency_lately: Latency,
    #[serde(serialize_with = "answers")]
    answers: AnswerFigures,
    #[serde(serialize_with = "codes")]
    codes: &'a CodeFigures,
    /// When the backend last took a request, if it ever did.
    last_taken_at: Option<String>,
    backend: Backend<'a>,
    credentials: Option<Credentials<'a>>,
    backlog: Option<Backlog>,
    setup_failed: bool,
    /// Why it cannot be set up as it is configured.
    setup_error: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(of: &'a PipelineFigures) -> Self {
        Self {
            pipeline: of.id.to_string(),
            signal: of.id.signal.name(),
            pushed: of.is_pushed_to,
            collected: of.is_collected_for,
            rules: &of.rules,
            exporter: &of.exporter,
            books: Books::of(&of.books),
            accepted_bytes: of.accepted_bytes,
            delivered_bytes: of.delivered_bytes,
            pending_bytes: of.pending_bytes,
            held_bytes: of.held_bytes,
            share_bytes: of.share_bytes,
            oldest_seconds: of.oldest_age.as_secs_f64(),
            in_flight: of.in_flight,
            parked: of.parked,
            concurrency_limit: of.concurrency_limit,
            retries: of.retries,
            retry_budget: RetryBudget::of(&of.retry_budget),
            is_probing: of.next_probe.is_some(),
            next_probe_seconds: of.next_probe.map(|next| next.as_secs_f64()),
            refused_items: of.refused_items,
            answers: of.answers,
            last_taken_at: Some(of.answers.last_taken_unix_ms).filter(|ms| *ms > 0).map(rfc3339_millis),
            latency: Latency::of(&of.latency),
            latency_lately: Latency::of(&of.latency_lately),
            codes: &of.codes,
            backend: Backend::of(&of.backend, &of.expiry),
            credentials: of.credentials.as_ref().map(Credentials::of),
            backlog: of.backlog.as_ref().map(Backlog::of),
            setup_failed: of.setup_error.is_some(),
            setup_error: of.setup_error.as_deref(),
        }
    }
}

/// Retries that may be made at once.
#[derive(Serialize)]
struct RetryBudget {
    left: f64,
    most: f64,
}

impl RetryBudget {
    fn of(RetryFigures { left, most }: &RetryFigures) -> Self {
        Self { left: *left, most: *most }
    }
}

fn answers<S: Serializer>(of: &AnswerFigures, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(Ending::ALL.iter().map(|ending| (ending.as_str(), of.of(*ending))))
}

fn codes<S: Serializer>(of: &&CodeFigures, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(of.each())
}

fn rules<S: Serializer>(all: &&[RuleFigures], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(|of| Rule {
        field: of.field(),
        kind: of.kind,
        rule: of.rule,
        line: of.line,
        matches: of.matches,
        errors: of.errors,
        filtered: of.filtered,
        cause: of.cause.as_deref(),
    }))
}

/// A condition or statement.
#[derive(Serialize)]
struct Rule<'a> {
    field: String,
    kind: &'static str,
    rule: usize,
    line: usize,
    matches: u64,
    errors: u64,
    filtered: u64,
    cause: Option<&'a str>,
}

/// A pipeline that is not in the plan any more, and owes something.
#[derive(Serialize)]
struct Orphan<'a> {
    pipeline: String,
    books: Books<'a>,
}

/// Items since the start.
#[derive(Serialize)]
struct Books<'a> {
    accepted: u64,
    recovered: u64,
    delivered: u64,
    filtered: &'a BTreeMap<&'static str, u64>,
    dropped: &'a BTreeMap<&'static str, u64>,
    rejected: &'a BTreeMap<String, u64>,
    pending: u64,
    waiting: u64,
    withdrawn: u64,
    /// What came in and is in none of the others: 0, or there is a bug.
    difference: i64,
    mismatches: u64,
}

impl<'a> Books<'a> {
    fn of(of: &'a BookFigures) -> Self {
        Self {
            accepted: of.accepted,
            recovered: of.recovered,
            delivered: of.delivered,
            filtered: &of.filtered,
            dropped: &of.dropped,
            rejected: &of.rejected,
            pending: of.pending,
            waiting: of.waiting,
            withdrawn: of.withdrawn,
            difference: of.difference(),
            mismatches: of.mismatches,
        }
    }
}

/// Time from a request to the backend to its answer.
#[derive(Serialize)]
struct Latency {
    requests: u64,
    sum_seconds: f64,
    /// Upper bounds in seconds, and requests up to each but not the one before; the last has no bound.
    buckets: Vec<(Option<f64>, u64)>,
}

impl Latency {
    fn of(of: &HistogramFigures) -> Self {
        let bound = |bound: f64| bound.is_finite().then_some(bound);
        let buckets = of.buckets.iter().map(|(seconds, count)| (bound(*seconds), *count)).collect();
        Self { requests: of.count(), sum_seconds: of.sum, buckets }
    }
}

/// How a backend stands, and its own words.
#[derive(Serialize)]
struct Backend<'a> {
    state: &'static str,
    code: &'a str,
    message: &'a str,
    lasts_seconds: f64,
    last_refusal: &'a str,
    /// When the certificate ends that it showed last.
    certificate_ends_at: Option<String>,
    /// How long the token for it is valid.
    token_lasts_seconds: Option<f64>,
}

impl<'a> Backend<'a> {
    fn of(of: &'a BackendFigures, expiry: &Expiry) -> Self {
        let BackendFigures { state, code, message, lasts, last_refusal } = of;
        Self {
            state: state.as_str(),
            code,
            message,
            lasts_seconds: lasts.as_secs_f64(),
            last_refusal,
            certificate_ends_at: expiry.certificate_unix_seconds.map(rfc3339_seconds),
            token_lasts_seconds: expiry.token.map(|left| left.as_secs_f64()),
        }
    }
}

/// Since when the backend is sent the credentials that it is sent now. Nothing of a secret is here, and no hash of one.
#[derive(Serialize)]
struct Credentials<'a> {
    taken_up_at: String,
    client_certificate: Option<ClientCertificate<'a>>,
}

/// The client's own, which every backend sees. Null are those of one that cannot be read.
#[derive(Serialize)]
struct ClientCertificate<'a> {
    serial: Option<&'a str>,
    ends_at: Option<String>,
}

impl<'a> Credentials<'a> {
    fn of(of: &'a CredentialFigures) -> Self {
        let client_certificate = of.certificate.as_ref().map(|certificate| ClientCertificate {
            serial: certificate.serial.as_deref(),
            ends_at: certificate.ends_unix_seconds.map(rfc3339_seconds),
        });
        Self { taken_up_at: rfc3339_millis(of.taken_up_unix_ms), client_certificate }
    }
}

/// What the journal has for a pipeline.
#[derive(Serialize)]
struct Backlog {
    items: u64,
    bytes: u64,
    limit_bytes: u64,
    limit_seconds: f64,
    oldest_seconds: f64,
}

impl Backlog {
    fn of(of: &BacklogFigures) -> Self {
        Self {
            items: of.items,
            bytes: of.bytes,
            limit_bytes: of.limit_bytes,
            limit_seconds: of.limit_age.as_secs_f64(),
            oldest_seconds: of.oldest_age.as_secs_f64(),
        }
    }
}

/// The memory budget, by holder.
#[derive(Serialize)]
struct Memory<'a> {
    total_bytes: usize,
    #[serde(serialize_with = "parts")]
    parts: &'a [PartFigures],
    #[serde(serialize_with = "holders")]
    payload_holders: &'a [HolderFigures],
    admission: Admission,
}

/// Whether a request would find memory now: see the figures.
#[derive(Serialize)]
struct Admission {
    set_aside_bytes: usize,
    used_bytes: usize,
    free_bytes: usize,
    is_scarce: bool,
    request_bytes: usize,
    enrichment_bytes: usize,
    copies: usize,
    fits_bytes: usize,
    largest_bytes: usize,
    limits: Limits,
    waiting: u32,
    most_waiting: u32,
    patience_seconds: f64,
    refused: Option<&'static str>,
    refused_because: Option<&'static str>,
}

/// What the largest request is the least of.
#[derive(Serialize)]
struct Limits {
    configured_bytes: usize,
    memory_bytes: usize,
    share_bytes: usize,
    read_back_bytes: Option<usize>,
}

impl Admission {
    fn of(of: &AdmissionFigures) -> Self {
        let limits = &of.limits;
        Self {
            set_aside_bytes: of.set_aside,
            used_bytes: of.used,
            free_bytes: of.free,
            is_scarce: of.is_scarce,
            request_bytes: of.request,
            enrichment_bytes: of.enrichment,
            copies: limits.copies,
            fits_bytes: of.fits,
            largest_bytes: limits.largest(),
            limits: Limits {
                configured_bytes: limits.configured,
                memory_bytes: limits.memory,
                share_bytes: limits.share,
                read_back_bytes: limits.read_back,
            },
            waiting: of.waiting,
            most_waiting: of.most_waiting,
            patience_seconds: of.patience.as_secs_f64(),
            refused: of.refused,
            refused_because: of.refused.map(because),
        }
    }
}

/// What a reason means with which refusals are counted: the page and the terminal show these words.
fn because(reason: &'static str) -> &'static str {
    match reason {
        "draining" => "the process ends",
        "no_memory" => "hardly any of the memory for telemetry is free",
        "unsupported" => "there is no pipeline",
        "pipelines_full" => "no pipeline may hold more",
        "disk" => "the disk takes nothing, and every pipeline is behind",
        other => other,
    }
}

#[derive(Serialize)]
struct Part {
    holder: &'static str,
    bytes: usize,
    used_bytes: Option<usize>,
}

fn parts<S: Serializer>(all: &&[PartFigures], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(|of| Part { holder: of.holder, bytes: of.bytes, used_bytes: of.used }))
}

#[derive(Serialize)]
struct Holder {
    holder: &'static str,
    used_bytes: usize,
}

fn holders<S: Serializer>(all: &&[HolderFigures], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(|of| Holder { holder: of.holder, used_bytes: of.used }))
}

#[derive(Serialize)]
struct Journal {
    disk_bytes: u64,
    disk_free_bytes: Option<u64>,
    segments: u64,
    failed: bool,
    damaged_items: u64,
}

#[derive(Serialize)]
struct ContainerLogs {
    containers: u64,
    stuck: u64,
    behind_bytes: u64,
    behind_seconds: f64,
    lost_bytes: u64,
}

/// The configuration that runs, and what is wrong with a newer one.
#[derive(Serialize)]
struct Configuration<'a> {
    taken_up_at: String,
    error: Option<&'a str>,
}
