//! What Weir tells Prometheus: the `otelcol_*` names that dashboards and alerts of the field read, and `weir_*` for
//! what these lack. Values are read from their owners at scrape time; nothing is registered twice, nothing is global.

mod journal;
mod rules;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use weir_plan::Signal;

use crate::account::Account;
use crate::accounts::Accounts;
use crate::books::BookFigures;
use crate::budget::{Budget, Text};
use crate::histogram::Histogram;
use crate::intake::Intake;
use crate::pipeline::{Pipeline, State};
use crate::process;
use crate::receive::{BySignal, Counters, REASONS, ReceiverStats};
use crate::reloads::Reloads;

/// Everything there is to read.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) intake: Arc<Intake>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) budget: Budget,
    pub(crate) receivers: Arc<ReceiverStats>,
    pub(crate) reloads: Arc<Reloads>,
    pub(crate) epoch: Instant,
}

/// The content type of [`render`]'s text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics as OpenMetrics text, paid for. `None` when there is no room for it.
pub(crate) fn render(metrics: &Arc<Metrics>, budget: &Budget) -> Option<Bytes> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Arc::clone(metrics)));
    let mut out = Text::new(budget)?;
    text::encode(&mut out, &registry).ok()?;
    Some(out.share())
}

const PENDING_BYTES: &str =
    "Bytes in the backlog and waiting to be sent; without a data directory, also parked and on the wire";

type Labels = Vec<(&'static str, String)>;

/// A pipeline and a copy of its books.
type Row<'a> = (&'a Pipeline, BookFigures);

/// The labels of a pipeline that there is or was, and a copy of its books.
type Books = (Labels, BookFigures);

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut writer = Writer { encoder };
        let pipelines = self.intake.pipelines();
        let rows: Vec<Row<'_>> =
            pipelines.iter().map(|pipeline| (&**pipeline, pipeline.account.books.figures())).collect();
        self.receivers(&mut writer)?;
        exporters(&mut writer, &rows)?;
        let books = self.books(&rows);
        self::books(&mut writer, &books)?;
        self.pipelines(&mut writer, &rows)?;
        if let Some(store) = self.intake.store() {
            journal::journal(&mut writer, store, &rows, &books)?;
        }
        rules::rules(&mut writer, &self.intake.routes())?;
        self.configuration(&mut writer)?;
        self.process(&mut writer)
    }
}

impl Metrics {
    /// The books of the pipelines that there are, and of those that are gone: what became of their items is still to be
    /// seen.
    fn books(&self, rows: &[Row<'_>]) -> Vec<Books> {
        let running = rows.iter().map(|(pipeline, books)| (pipeline_labels(pipeline), books.clone()));
        let is_gone = |account: &Arc<Account>| !rows.iter().any(|(pipeline, _)| pipeline.account.id == account.id);
        let gone = self.accounts.orphans().into_iter().filter(is_gone);
        running.chain(gone.map(|account| (account_labels(&account), account.books.figures()))).collect()
    }

    fn receivers(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let transports = [("grpc", &self.receivers.grpc), ("http", &self.receivers.http)];
        let labels = |transport: &str| vec![("receiver", "otlp".to_owned()), ("transport", transport.to_owned())];
        for signal in Signal::ALL {
            let items = items(signal);
            let of = |counters: fn(&Counters) -> &BySignal| {
                transports.map(|(name, of)| (labels(name), load(&counters(of)[signal as usize])))
            };
            let name = format!("otelcol_receiver_accepted_{items}");
            writer.counters(&name, "Items answered OK", of(|counters| &counters.accepted))?;
            let name = format!("otelcol_receiver_refused_{items}");
            let help = "Items whose client was asked to send them again";
            writer.counters(&name, help, of(|counters| &counters.refused))?;
        }
        let unclaimed = Signal::ALL
            .map(|signal| (vec![("signal", signal.name().to_owned())], load(&self.intake.unclaimed[signal as usize])));
        let help = "Items answered OK that no pipeline takes, because of their namespaces";
        writer.counters("weir_receiver_unclaimed_items", help, unclaimed)?;
        let itemless = transports.iter().flat_map(|(name, counters)| {
            Signal::ALL.into_iter().zip(&counters.itemless).map(move |(signal, count)| {
                (vec![("transport", (*name).to_owned()), ("signal", signal.name().to_owned())], load(count))
            })
        });
        let help = "Requests answered OK that were not empty, but had no item of their signal";
        writer.counters("weir_receiver_itemless_requests", help, itemless)?;
        let refusals = transports.iter().flat_map(|(name, counters)| {
            REASONS.iter().zip(&counters.refusals).map(move |(reason, count)| {
                (vec![("transport", (*name).to_owned()), ("reason", (*reason).to_owned())], load(count))
            })
        });
        writer.counters("weir_receiver_refused_requests", "Requests refused, by reason", refusals)?;
        let answers = transports.iter().flat_map(|(name, counters)| {
            Signal::ALL.into_iter().zip(&counters.answers).map(move |(signal, histogram)| {
                (vec![("transport", (*name).to_owned()), ("signal", signal.name().to_owned())], histogram)
            })
        });
        let help = "Time from the head of a client's request to its answer, whatever that is";
        writer.histograms("weir_receiver_answer_seconds", help, answers)?;
        let connections = [(Labels::new(), load(&self.receivers.connections) as f64)];
        writer.gauges("weir_receiver_connections", "Open client connections", connections)?;
        let refused = load(&self.receivers.connections_refused) as f64;
        let help = "Connections closed at the limit on their number";
        writer.float_counter("weir_receiver_connections_refused", help, refused)?;
        let failed = load(&self.receivers.handshakes_failed) as f64;
        let help = "Connections whose TLS handshake failed: no TLS, no trusted client certificate";
        writer.float_counter("weir_receiver_tls_handshakes_failed", help, failed)
    }

    fn pipelines(&self, writer: &mut Writer<'_>, rows: &[Row<'_>]) -> fmt::Result {
        let bytes = rows.iter().map(|(pipeline, _)| (pipeline_labels(pipeline), pipeline.pending_bytes() as f64));
        writer.gauges("weir_pipeline_pending_bytes", PENDING_BYTES, bytes)?;
        let held = rows.iter().map(|(pipeline, _)| (pipeline_labels(pipeline), pipeline.account.share.held() as f64));
        writer.gauges("weir_pipeline_held_bytes", "Bytes kept in memory after their client got its OK", held)?;
        let ages = rows.iter().map(|(pipeline, _)| (pipeline_labels(pipeline), pipeline.oldest_age().as_secs_f64()));
        writer.gauges("weir_pipeline_oldest_age_seconds", "Age of the oldest item not finished", ages)?;
        let parked = rows.iter().map(|(pipeline, _)| (pipeline_labels(pipeline), load(&pipeline.stats.parked) as f64));
        writer.gauges("weir_pipeline_parked_batches", "Batches that wait for their next attempt", parked)?;
        let faulty = rows.iter().map(|(pipeline, _)| {
            (pipeline_labels(pipeline), f64::from(u8::from(pipeline.stats.faulty.load(Ordering::Relaxed))))
        });
        let help = "1 while the pipeline cannot be set up as it is configured";
        writer.gauges("weir_pipeline_setup_failed", help, faulty)?;
        let retries = rows.iter().map(|(pipeline, _)| (pipeline_labels(pipeline), load(&pipeline.stats.retries)));
        writer.counters("weir_pipeline_retries", "Requests to the backend that have to be tried again", retries)?;
        let limits =
            rows.iter().map(|(pipeline, _)| (pipeline_labels(pipeline), load(&pipeline.stats.concurrency) as f64));
        let help = "Requests to the backend that may be unanswered at once";
        writer.gauges("weir_pipeline_concurrency_limit", help, limits)?;
        let states = rows.iter().flat_map(|(pipeline, _)| backend_states(pipeline));
        let help = "1 for the state that the backend is in, with the code of its refusal";
        writer.gauges("weir_pipeline_backend_state", help, states)?;
        let latencies = rows.iter().map(|(pipeline, _)| (pipeline_labels(pipeline), &pipeline.stats.latency));
        writer.histograms("weir_backend_latency_seconds", "Time from a request to the backend to its answer", latencies)
    }

    fn configuration(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let reloads = &self.reloads;
        let by_result = [("success", &reloads.successes), ("failure", &reloads.failures)]
            .map(|(result, count)| (vec![("result", result.to_owned())], load(count)));
        writer.counters("weir_config_reloads", "Changed configurations that were read, by result", by_result)?;
        let current = f64::from(u8::from(reloads.is_current()));
        let help = "0 while the files hold a configuration that cannot be used";
        writer.gauges("weir_config_last_reload_successful", help, [(Labels::new(), current)])?;
        let last = load(&reloads.last_success) as f64;
        let help = "When the configuration that runs was taken up, in seconds since the Unix epoch";
        writer.gauges("weir_config_last_reload_success_timestamp_seconds", help, [(Labels::new(), last)])
    }

    fn process(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let usage = process::usage();
        let one = |value: f64| [(Labels::new(), value)];
        writer.float_counter("otelcol_process_cpu_seconds", "CPU time used", usage.cpu_seconds)?;
        writer.gauges("otelcol_process_memory_rss", "Resident memory in bytes", one(usage.rss_bytes as f64))?;
        writer.float_counter(
            "otelcol_process_uptime_seconds",
            "Time since the start",
            self.epoch.elapsed().as_secs_f64(),
        )?;
        writer.gauges(
            "weir_memory_budget_bytes",
            "The memory budget for payloads",
            one(self.budget.capacity() as f64),
        )?;
        writer.gauges("weir_memory_used_bytes", "Of the budget, what is taken", one(self.budget.used() as f64))
    }
}

fn exporters(writer: &mut Writer<'_>, rows: &[Row<'_>]) -> fmt::Result {
    for signal in Signal::ALL {
        let items = items(signal);
        let of = |read: fn(&BookFigures) -> u64| {
            let rows = rows.iter().filter(|(pipeline, _)| pipeline.signal() == signal);
            rows.map(|(pipeline, books)| (exporter_labels(pipeline), read(books))).collect::<Vec<_>>()
        };
        let sent = of(|books| books.delivered);
        if sent.is_empty() {
            continue;
        }
        writer.counters(&format!("otelcol_exporter_sent_{items}"), "Items the backend took", sent)?;
        let failed = of(|books| books.rejected.values().sum());
        let name = format!("otelcol_exporter_send_failed_{items}");
        writer.counters(&name, "Items the backend refused for good", failed)?;
        let dropped = of(|books| books.dropped.values().sum());
        let name = format!("otelcol_exporter_enqueue_failed_{items}");
        writer.counters(&name, "Items given up for want of room", dropped)?;
    }
    journal::queue(writer, rows)?;
    let flying = rows.iter().map(|(pipeline, _)| (queue_labels(pipeline), load(&pipeline.stats.in_flight) as f64));
    writer.gauges("otelcol_exporter_in_flight_requests", "Requests to the backend without an answer", flying)
}

/// The books of P4. `accepted + recovered = delivered + filtered + dropped + rejected + pending` within one scrape.
fn books(writer: &mut Writer<'_>, rows: &[Books]) -> fmt::Result {
    let of = |read: fn(&BookFigures) -> u64| rows.iter().map(move |(labels, books)| (labels.clone(), read(books)));
    writer.counters("weir_pipeline_accepted_items", "Items taken over from clients", of(|books| books.accepted))?;
    writer.counters("weir_pipeline_delivered_items", "Items the backend took", of(|books| books.delivered))?;
    let filtered = rows.iter().flat_map(|(labels, books)| {
        books.filtered.iter().map(|(reason, count)| (labels_with(labels, "reason", reason), *count))
    });
    writer.counters("weir_pipeline_filtered_items", "Items removed on the user's request, by reason", filtered)?;
    let dropped = rows.iter().flat_map(|(labels, books)| {
        books.dropped.iter().map(|(reason, count)| (labels_with(labels, "reason", reason), *count))
    });
    writer.counters("weir_pipeline_dropped_items", "Items given up, by reason", dropped)?;
    let rejected = rows.iter().flat_map(|(labels, books)| {
        books.rejected.iter().map(|(code, count)| (labels_with(labels, "code", code), *count))
    });
    writer.counters("weir_pipeline_rejected_items", "Items the backend refused for good, by its code", rejected)?;
    writer.counters(
        "weir_pipeline_withdrawn_items",
        "Items given back to their clients to send again",
        of(|books| books.withdrawn),
    )?;
    let gauge =
        |read: fn(&BookFigures) -> u64| rows.iter().map(move |(labels, books)| (labels.clone(), read(books) as f64));
    writer.gauges("weir_pipeline_pending_items", "Items accepted and not finished", gauge(|books| books.pending))?;
    writer.gauges(
        "weir_pipeline_waiting_items",
        "Items whose client is not answered yet",
        gauge(|books| books.waiting),
    )?;
    writer.counters("weir_books_mismatches", "Entries that did not add up: bugs", of(|books| books.mismatches))
}

/// What the field calls the items of a signal in the names of metrics.
fn items(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "spans",
        Signal::Metrics => "metric_points",
        Signal::Logs => "log_records",
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn pipeline_labels(pipeline: &Pipeline) -> Labels {
    account_labels(&pipeline.account)
}

fn account_labels(account: &Account) -> Labels {
    vec![("pipeline", account.id.name.clone()), ("signal", account.id.signal.name().to_owned())]
}

fn labels_with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.to_owned()));
    labels
}

/// Each state that a backend may be in, and whether it is.
fn backend_states(pipeline: &Pipeline) -> impl Iterator<Item = (Labels, f64)> {
    let standing = pipeline.stats.backend.read();
    State::ALL.into_iter().map(move |state| {
        let is_now = state == standing.state;
        let mut labels = labels_with(&pipeline_labels(pipeline), "state", state.as_str());
        let code = if is_now { standing.code.as_str() } else { "" };
        labels.push(("code", code.to_owned()));
        (labels, f64::from(u8::from(is_now)))
    })
}

fn exporter_labels(pipeline: &Pipeline) -> Labels {
    vec![("exporter", pipeline.exporter_label.clone())]
}

fn queue_labels(pipeline: &Pipeline) -> Labels {
    vec![("exporter", pipeline.exporter_label.clone()), ("data_type", pipeline.signal().name().to_owned())]
}

/// Writes metric families.
struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Writer<'_> {
    fn counters(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, u64)>) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in rows {
            family.encode_family(&labels)?.encode_counter::<Labels, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn float_counter(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<Labels, _, u64>(&value, None)
    }

    fn gauges(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, f64)>) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in rows {
            if labels.is_empty() {
                family.encode_gauge(&value)?;
            } else {
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn histograms<'h>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels, &'h Histogram)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, histogram) in rows {
            let (sum, buckets) = histogram.read();
            let count = buckets.iter().map(|(_, count)| count).sum();
            if labels.is_empty() {
                family.encode_histogram(sum, count, &buckets, none::<Labels>())?;
            } else {
                family.encode_family(&labels)?.encode_histogram(sum, count, &buckets, none::<Labels>())?;
            }
        }
        Ok(())
    }
}

type Exemplars<'a, S> =
    Option<&'a std::collections::HashMap<usize, prometheus_client::metrics::exemplar::Exemplar<S, f64>>>;

fn none<'a, S: EncodeLabelSet>() -> Exemplars<'a, S> {
    None
}
