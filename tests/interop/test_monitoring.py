"""What users see of Weir in Prometheus and Grafana: each query of each dashboard answers, each alert fires in the
trouble that it is for, and none does while all is well. The files are those of deploy/monitoring.

Nobody can wait for minutes here: a Prometheus that scrapes every second gets rules whose times are a sixtieth, or a
twentieth (`monitoring.write_scaled_rules`). Their true times are tested by promtool, in rules_test.yaml.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import monitoring
from harness.api_server import ApiServer, write_kubeconfig
from harness.faults import Fleet, start_on_small_disk, start_operator
from harness.monitoring import DASHBOARDS, RULES, Query
from harness.pages import Target, text
from harness.process import Lab, free_port
from harness.prometheus import Prometheus, binary

SERVICE = "telemetry-otlp-gateway-metrics"
AGENT = "telemetry-metric-agent-metrics"
FLUENT_BIT = "telemetry-fluent-bit-metrics"
FLUENT_BIT_BUFFER = "telemetry-fluent-bit-exporter-metrics"
PROMTOOL_TESTS = Path(__file__).parent / "rules_test.yaml"
# What the operator calls objects.
CRATES = Path(__file__).parents[2] / "crates"
NAMES = (CRATES / "plan" / "src" / "names.rs", CRATES / "kubernetes" / "src" / "operator" / "names.rs")
# For the process that is well: on a busy machine it, or a client or a backend of it, may stand still for seconds.
GENTLE_SCALE = 20
# Longer than the times of any rule, as they are scaled for it: the longest is `for: 15m`.
OBSERVED_S = 60

# Prometheus's own.
OF_PROMETHEUS = {"ALERTS", "up"}
# Nothing here is in a cluster. Queries of these are asked on one, in tests/cluster/test_short.py. But a process that is
# ill makes runtime metrics here, too.
OF_CLUSTERS = monitoring.of_clusters() - {"weir_runtime_lost_data_points_total"}
# What is not there while all is well.
OF_TROUBLES = {
    "ALERTS",
    "weir_pipeline_dropped_items_total",
    "weir_pipeline_rejected_items_total",
    "weir_runtime_lost_data_points_total",
    "weir_journal_orphaned_items",
}
# Queries that are empty while all is well, although their metrics are there.
EMPTY_WHILE_WELL = {("Weir / Pipeline", "Full in")}

# By the alerts, what they have to be about: pipelines, or services that the scene calls so. Nothing: all together.
TROUBLES = {
    "WeirDataLost": {"full", "some-refused", "some-rejected"},
    "WeirNothingDelivered": {"full", "filling", "unauthorized", "no-room"},
    "WeirBackendRefuses": {"unauthorized"},
    "WeirBackendFails": {"some-failed"},
    "WeirBackendCertificateEndsSoon": {"certificate-ends-soon"},
    "WeirBackendCertificateEnds": {"certificate-ends-today", "certificate-ended"},
    "WeirClientCertificateEndsSoon": {"client-certificate-ends-soon"},
    "WeirClientCertificateEnds": {"client-certificate-ends-today", "client-certificate-ended"},
    "WeirDataLate": {"one-sided"},
    "WeirDataExpires": {"unauthorized"},
    "WeirBacklogNearlyFull": {"full", "memory", "no-room"},
    "WeirBacklogFullSoon": {"filling"},
    "WeirPipelineNotSetUp": {"untrusted"},
    "WeirClientsTurnedAway": {"no-room", "disk", "memory"},
    "WeirRequestsInvalid": {"backends"},
    "WeirDataUnclaimed": set(),
    "WeirDown": {"ended"},
    "WeirRestarts": {"restarting"},
    "WeirMemoryNearlyFull": {"memory"},
    "WeirConfigurationRefused": {"damaged", "backends"},
    "WeirJournalFails": {"disk"},
    "WeirJournalDamaged": {"damaged"},
    "WeirJournalUntidy": {"untidy"},
    "WeirDataWithoutPipeline": {"damaged"},
    "WeirContainerLogsLost": {"no-room"},
    "WeirContainerLogsStuck": {"late"},
    "WeirContainersWithoutMemory": {"crowd"},
    "WeirContainerLogsLate": {"late"},
    "WeirScrapeTargetsDown": {"static"},
    "WeirScrapesLost": {"no-room"},
    "WeirRuntimeMetricsLost": {"no-room"},
    "WeirOperatorDoesNotLead": set(),
    "WeirOperatorCannotWatch": {"operator"},
    "WeirOperatorCannotRegister": set(),
    "WeirNobodySpeaksForCluster": set(),
    "WeirWatchFails": {"blind-node"},
}

# Of one that leads; another Prometheus sees it.
OF_OPERATORS = {"WeirOperatorCannotWrite", "WeirNodesSilent"}
# Of one whose disk is small; another Prometheus sees it, too.
OF_DISKS = {"WeirDiskFullSoon", "WeirDiskNearlyFull"}

# As published, word for word. Those of agents have other services; here all are the same process.
KPIS = [
    query.replace("SIGNAL", signal).replace("KIND", kind).replace("SERVICE", service)
    for service, signal, kind in (
        (SERVICE, "spans", "trace"),
        (SERVICE, "metric_points", "metric"),
        (AGENT, "metric_points", "metric"),
    )
    for query in (
        'round(sum(rate(otelcol_receiver_accepted_SIGNAL_total{service="SERVICE"}[20m])))',
        'round(sum(rate(otelcol_exporter_sent_SIGNAL_total{service="SERVICE", '
        'exporter=~"otlp_grpc/KINDpipeline-load-test.*"}[20m])))',
        'avg(sum(otelcol_exporter_queue_size{service="SERVICE", exporter=~"otlp_grpc/KINDpipeline-load-test.*"}))',
    )
]
KPIS += [
    f'round(sum(rate({name}{{service="{FLUENT_BIT}", name=~"load-test-.*"}}[20m])){scale})'
    for name, scale in (
        ("fluentbit_input_bytes_total", " / 1024"),
        ("fluentbit_input_records_total", ""),
        ("fluentbit_output_proc_bytes_total", " / 1024"),
        ("fluentbit_output_proc_records_total", ""),
    )
]
KPIS.append('round(sum(rate(otelcol_exporter_sent_spans_total{exporter=~"otlp_grpc/tracepipeline-load-test.*"}[20m])))')
KPIS.append(f'round(sum(avg_over_time(telemetry_fsbuffer_usage_bytes{{service="{FLUENT_BIT_BUFFER}"}}[20m])) / 1024)')
# What they leave out: which of it this process has collected itself.
COLLECTED = [
    f'sum(rate(otelcol_receiver_accepted_{items}_total{{receiver="{receiver}"}}[20m]))'
    for items, receiver in (("metric_points", "prometheus"), ("log_records", "runtime"))
]
# These are about pods: metrics of cAdvisor and of recording rules of kube-prometheus.
MEMORY = (
    'round(sum(avg_over_time(container_memory_working_set_bytes{namespace="kyma-system", container="CONTAINER"}[20m]) '
    "* on(namespace,pod) group_left(workload) avg_over_time(namespace_workload_pod:kube_pod_owner:relabel"
    '{namespace="kyma-system", workload="WORKLOAD"}[20m])) by (pod) / 1024 / 1024)'
)
CPU = (
    "round(sum(avg_over_time(node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate"
    '{namespace="kyma-system"}[20m]) '
    "* on(namespace,pod) group_left(workload) avg_over_time(namespace_workload_pod:kube_pod_owner:relabel"
    '{namespace="kyma-system", workload="WORKLOAD"}[20m])) by (pod), 0.1)'
)
# By the constant in names.rs, the workload of it that is published, and what its pods have: MiB and cores.
PODS = {
    "NODE": ("telemetry-otlp-gateway", {"x7k2p": (110, 0.8), "m9d4w": (112, 0.9)}),
    "METRIC_AGENT": ("telemetry-metric-agent", {"c5v8t": (759, 0.2), "z2q6h": (733, 0.3)}),
}
SIDECAR_MIB, SIDECAR_CORES = 64, 0.1
# These are about programs that Weir is without: by the published workload, its container.
NOT_THERE = {"telemetry-fluent-bit": "fluent-bit", "telemetry-self-monitor": "self-monitor"}
OF_SELF_MONITOR = [
    'sum_over_time(scrape_samples_scraped{service="telemetry-self-monitor-metrics"}[20m])/1200',
    "prometheus_tsdb_head_series",
    "prometheus_tsdb_wal_storage_size_bytes",
    "prometheus_tsdb_head_chunks_storage_size_bytes",
]


@dataclass
class Scene:
    """A process that is well and processes that are not, each seen by a Prometheus of their own."""

    lab: Lab
    well: Prometheus
    ill: Prometheus
    services: dict[str, str]
    rules: Path

    def fired(self, within: str = "10m") -> dict[str, set[str]]:
        """What each alert that has fired is about."""
        found: dict[str, set[str]] = {}
        for sample in self.ill.query(f'last_over_time(ALERTS{{alertstate="firing"}}[{within}])'):
            found.setdefault(sample["metric"]["alertname"], set()).update(self._subjects(sample["metric"]))
        return found

    def _subjects(self, labels: dict[str, str]) -> set[str]:
        exporter = re.sub(".+pipeline-", "", labels.get("exporter", ""))
        service = self.services.get(labels.get("instance", ""), "")
        return {labels.get("pipeline", ""), labels.get("exported_job", ""), exporter, service} - {""}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, weir_binary: Path) -> Iterator[Scene]:
    lab = Lab(tmp_path_factory.mktemp("monitoring"))
    rules = monitoring.write_scaled_rules(lab.directory / "rules.yaml")
    fleet = Fleet(lab, weir_binary)
    try:
        fleet.start_healthy(SERVICE)
        address = fleet.addresses()[SERVICE]
        gentle = monitoring.write_scaled_rules(lab.directory / "gentle-rules.yaml", GENTLE_SCALE)
        others = dict.fromkeys((AGENT, FLUENT_BIT, FLUENT_BIT_BUFFER), address)
        well = Prometheus(lab, address, SERVICE, others, rules=gentle)
        fleet.start_ill()
        addresses = {service: address for service, address in fleet.addresses().items() if service != SERVICE}
        first, *_ = addresses
        ill = Prometheus(lab, addresses[first], first, addresses, rules=rules)
        well.wait_until_scraped(4)
        ill.wait_until_scraped(len(addresses))
        yield Scene(lab, well, ill, {address: service for service, address in addresses.items()}, rules)
    finally:
        fleet.close()
        lab.close()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_what_grafana_reads(path: Path) -> None:
    dashboard = monitoring.load(path)
    assert dashboard["uid"] == f"weir-{path.stem}" and dashboard["title"].startswith("Weir / ")
    assert dashboard["schemaVersion"] >= 39 and dashboard["tags"] == ["weir"]
    data_source, *variables = dashboard["templating"]["list"]
    assert (data_source["name"], data_source["type"], data_source["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )
    ours = {"type": "prometheus", "uid": "${datasource}"}
    assert all(variable["datasource"] == ours for variable in variables if variable["type"] == "query")
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, (
            f"{panel['title']}: {place} overlaps, or is too wide"
        )
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"] and panel["datasource"] == ours, panel["title"]
            references = [target["refId"] for target in panel["targets"]]
            assert references and len(set(references)) == len(references), panel["title"]


def test_each_name_is_documented() -> None:
    known = monitoring.documented() | monitoring.recorded() | OF_PROMETHEUS
    for path in DASHBOARDS:
        for query in monitoring.queries(monitoring.load(path)):
            names = monitoring.metrics_of(query.expression)
            assert names and names <= known, f"{query}: {names - known}"
    for rule in monitoring.rules():
        names = monitoring.metrics_of(rule["expr"])
        assert names and names <= known, f"{rule}: {names - known}"
        told = set(re.findall(r"\b(?:weir|otelcol)_[a-z_]+", " ".join(rule.get("annotations", {}).values())))
        assert told <= known | {"weir_pipeline"}, f"{rule}: {told - known}"


def test_each_alert_is_tested_and_explained() -> None:
    alerts = {rule["alert"] for rule in monitoring.alerts()}
    assert alerts == set(TROUBLES) | {"WeirAbsent", "WeirBooksDiffer"} | OF_OPERATORS | OF_DISKS
    assert alerts == set(re.findall(r"Weir[A-Z]\w+", PROMTOOL_TESTS.read_text())), "each has its true times"
    explained = re.findall(r"^\| `(Weir\w+)`", (RULES.parent / "README.md").read_text(), re.MULTILINE)
    assert explained == [rule["alert"] for rule in monitoring.alerts()], (
        "the table of README.md, in the order of the rules"
    )
    for rule in monitoring.alerts():
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]


def test_true_times_of_rules() -> None:
    for arguments in (["check", "rules", RULES], ["test", "rules", PROMTOOL_TESTS]):
        run = subprocess.run([binary("promtool"), *arguments], capture_output=True, text=True, timeout=300, check=False)
        assert run.returncode == 0, run.stdout + run.stderr


def test_queries_answer_while_all_is_well(scene: Scene) -> None:
    queries = all_queries(scene.well)
    wait_for_answers(scene.well, [query for query in queries if not may_be_empty(query[0])])
    for _, ways in queries:
        # One that cannot be understood fails.
        scene.well.query(ways[0])


def wait_for_answers(prometheus: Prometheus, queries: list[tuple[Query, list[str]]]) -> None:
    def unanswered() -> list[Query]:
        queries[:] = [(query, ways) for query, ways in queries if not any(map(prometheus.query, ways))]
        return [query for query, _ in queries]

    assert queries
    try:
        prometheus.process.wait_for(lambda: not unanswered(), "answers all queries")
    except AssertionError as error:
        raise AssertionError(f"no answer: {unanswered()}") from error


def all_queries(prometheus: Prometheus) -> list[tuple[Query, list[str]]]:
    """Every query, in every way that the choices of the dashboard's variables make of it."""
    found = []
    for path in DASHBOARDS:
        dashboard = monitoring.load(path)
        choices = list(monitoring.choices(prometheus, dashboard))
        for query in monitoring.queries(dashboard):
            found.append((query, sorted({monitoring.substituted(query.expression, choice) for choice in choices})))
    return found


def may_be_empty(query: Query) -> bool:
    of_troubles = monitoring.metrics_of(query.expression) & OF_TROUBLES
    return bool(of_troubles) or is_of_clusters(query) or (query.dashboard, query.panel) in EMPTY_WHILE_WELL


def is_of_clusters(query: Query) -> bool:
    return bool(monitoring.metrics_of(query.expression) & OF_CLUSTERS)


@pytest.mark.parametrize("query", KPIS + COLLECTED)
def test_published_queries_answer(scene: Scene, query: str) -> None:
    # A queue may be empty. Where nobody has a queue, there is no answer.
    least = 0 if "queue" in query or "buffer" in query else 1
    answer = lambda: (value := scene.well.value(query)) is not None and value >= least
    scene.well.process.wait_for(answer, f"answers {query}")


def test_published_queries_about_pods_find_those_of_the_operator(lab: Lab) -> None:
    """The pods and their figures are made up. Their names, and the labels of the series, are as on a cluster."""
    target = Target("pods", text(page_about_pods()))
    try:
        prometheus = Prometheus(lab, target.address, "kube-prometheus")
        for workload, pods in PODS.values():
            memory = {f"{workload}-{pod}": mib for pod, (mib, _) in pods.items()}
            assert of_pods(prometheus, about(MEMORY, workload, "collector")) == memory
            cpu = {f"{workload}-{pod}": cores + SIDECAR_CORES for pod, (_, cores) in pods.items()}
            assert of_pods(prometheus, about(CPU, workload)) == pytest.approx(cpu)
        nobody = [about(query, workload, of) for query in (MEMORY, CPU) for workload, of in NOT_THERE.items()]
        for query in nobody + OF_SELF_MONITOR:
            assert prometheus.query(query) == [], query
    finally:
        target.close()


def about(query: str, workload: str, container: str = "") -> str:
    return query.replace("WORKLOAD", workload).replace("CONTAINER", container)


def of_pods(prometheus: Prometheus, query: str) -> dict[str, float]:
    result = prometheus.process.wait_for(lambda: prometheus.query(query), f"answers {query}")
    return {sample["metric"]["pod"]: float(sample["value"][1]) for sample in result}


def page_about_pods() -> str:
    """What a Prometheus of kube-prometheus has of pods with a sidecar."""
    container, lines = name_of("CONTAINER"), []
    for constant, (_, pods) in PODS.items():
        workload = name_of(constant)
        for suffix, (mib, cores) in pods.items():
            pod = f'namespace="kyma-system",pod="{workload}-{suffix}"'
            owner = f'{pod},workload="{workload}",workload_type="daemonset"'
            lines.append(f"namespace_workload_pod:kube_pod_owner:relabel{{{owner}}} 1")
            # cAdvisor also has the sum of a pod, without a container.
            for of, taken in (("", mib + SIDECAR_MIB), (container, mib), ("istio-proxy", SIDECAR_MIB)):
                labels = f'{pod},container="{of}"'
                lines.append(f"container_memory_working_set_bytes{{{labels}}} {taken << 20}")
            for of, used in ((container, cores), ("istio-proxy", SIDECAR_CORES)):
                labels = f'{pod},container="{of}",node="node"'
                name = "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate"
                lines.append(f"{name}{{{labels}}} {used}")
    return "\n".join([*sorted(lines), ""])


def name_of(constant: str) -> str:
    [name] = re.findall(rf'\bconst {constant}: &str = "([^"]+)";', "".join(of.read_text() for of in NAMES))
    return name


def test_each_alert_fires(scene: Scene) -> None:
    """The last one is `WeirContainerLogsStuck`: what is stuck for less than 30 s is not called so."""

    def missing() -> dict[str, set[str]]:
        fired = scene.fired()
        return {alert: of for alert, of in TROUBLES.items() if alert not in fired or of - fired[alert]}

    try:
        scene.ill.process.wait_for(lambda: not missing(), "has every alert", 180)
    except AssertionError as error:
        raise AssertionError(f"no alerts: {missing()}") from error
    assert_texts_are_whole(scene.ill)

    def wrong() -> list[str]:
        """Of the process `other-side`, which is well, and delivers what another one does not."""
        now = scene.fired("3s")
        nothing = {"one-sided"} & now.get("WeirNothingDelivered", set())
        return [*nothing, *(alert for alert, subjects in now.items() if "other-side" in subjects)]

    # A second is a minute here, so that it is told of when it stands still; but not for long.
    scene.ill.process.wait_for(lambda: not wrong(), "says nothing of what is well")
    assert "some-rejected" not in scene.fired()["WeirBackendFails"], "the backend answers OK"


def assert_texts_are_whole(prometheus: Prometheus) -> None:
    for alert in prometheus.get("alerts")["alerts"]:
        text = " ".join(alert["annotations"].values())
        assert not re.search(r"<|%!|NaN| [ .,;)]|\(\)|\{\{", text), f"{alert['labels']}: {text}"


def test_that_nothing_is_scraped_is_noticed(scene: Scene) -> None:
    prometheus = Prometheus(scene.lab, f"127.0.0.1:{free_port()}", "nobody", rules=scene.rules)
    firing = lambda: prometheus.query('ALERTS{alertname="WeirAbsent", alertstate="firing"}')
    prometheus.process.wait_for(firing, "has WeirAbsent")


def test_that_an_operator_may_not_write_and_nodes_are_silent_is_noticed(scene: Scene, weir_binary: Path) -> None:
    server = ApiServer()
    try:
        kubeconfig = write_kubeconfig(scene.lab.directory / "refusing.json", server.url)
        operator = start_operator(scene.lab, weir_binary, kubeconfig)
        prometheus = Prometheus(scene.lab, operator, "operator", rules=scene.rules)
        prometheus.process.wait_for(lambda: fired(prometheus) >= OF_OPERATORS, f"has {OF_OPERATORS}", 180)
    finally:
        server.close()


def test_that_a_disk_is_full_is_noticed_before(scene: Scene, weir_binary: Path) -> None:
    """In a minute: 80 % of what there is room for, which is nine tenths of the disk."""
    disk = start_on_small_disk(scene.lab, weir_binary, mebibytes=24, bytes_per_s=300_000)
    if disk is None:
        assert "CI" not in os.environ or "WEIR_WITHOUT_MOUNTS" in os.environ, "this user may not mount a small disk"
        pytest.skip("this user may not mount a small disk, not even with `unshare`")
    prometheus = Prometheus(scene.lab, disk.metrics_address, "small-disk", rules=scene.rules)
    prometheus.process.wait_for(lambda: "WeirDiskFullSoon" in fired(prometheus), "has WeirDiskFullSoon")
    assert_texts_are_whole(prometheus)
    prometheus.process.wait_for(lambda: fired(prometheus) >= OF_DISKS, f"has {OF_DISKS}", 120)
    assert_texts_are_whole(prometheus)
    soon, nearly = (f'ALERTS{{alertname="WeirDisk{of}", alertstate="firing"}}' for of in ("FullSoon", "NearlyFull"))
    for first, then in ((soon, nearly), (nearly, "weir_pipeline_dropped_items_total > 0")):
        # That was so at some time, however late this is asked.
        before = f"last_over_time(({first} unless on () {then})[10m:1s])"
        prometheus.process.wait_for(lambda: prometheus.query(before), f"had {first} before there was {then}")


def fired(prometheus: Prometheus) -> set[str]:
    return {it["metric"]["alertname"] for it in prometheus.query('last_over_time(ALERTS{alertstate="firing"}[10m])')}


def test_queries_answer_in_trouble(scene: Scene) -> None:
    """Those that have nothing to say while all is well."""
    in_trouble = [query for query in all_queries(scene.ill) if may_be_empty(query[0]) and not is_of_clusters(query[0])]
    wait_for_answers(scene.ill, in_trouble)


def test_queries_of_operations_find_a_loss(scene: Scene) -> None:
    queries = [(Query("docs/operations.md", "", query), [query]) for query in monitoring.queries_of_operations()]
    wait_for_answers(scene.ill, queries)


def test_names_are_those_of_real_pages(scene: Scene) -> None:
    queries = [query.expression for path in DASHBOARDS for query in monitoring.queries(monitoring.load(path))]
    queries += [rule["expr"] for rule in monitoring.rules()]
    used = {name for query in queries for name in monitoring.metrics_of(query)} - OF_CLUSTERS

    def unseen() -> set[str]:
        return used.difference(*(prometheus.get("label/__name__/values") for prometheus in (scene.well, scene.ill)))

    # No series of the conversion to delta is forgotten here.
    scene.ill.process.wait_for(lambda: unseen() <= {"weir_temporality_forgotten_series_total"}, "has all metrics")


def test_no_alert_fires_while_all_is_well(scene: Scene) -> None:
    scrapes = f'sum_over_time(up{{service="{SERVICE}"}}[10m])'
    scene.well.process.wait_for(
        lambda: (scene.well.value(scrapes) or 0) >= OBSERVED_S, "has seen enough", 3 * OBSERVED_S
    )
    assert scene.well.query('last_over_time(ALERTS{alertstate="firing"}[10m])') == []
