"""The files of deploy/monitoring: dashboards and their queries, alert rules, and the names of metrics in both."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .prometheus import Prometheus

_ROOT = Path(__file__).resolve().parents[3]
RULES = _ROOT / "deploy" / "monitoring" / "rules.yaml"
DASHBOARDS = sorted((RULES.parent / "dashboards").glob("*.json"))
_DOCUMENTS = (_ROOT / "docs" / "metrics.md", _ROOT / "docs" / "kubernetes.md")

# Grafana's own; the interval is four scrapes long, as Grafana makes it.
_BUILT_IN = {"__rate_interval": "4s", "__range": "5m"}


@dataclass(frozen=True)
class Query:
    """A query of a panel, as it stands in the file."""

    dashboard: str
    panel: str
    expression: str


def load(path: Path) -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(path.read_text())
    return dashboard


def queries(dashboard: dict[str, Any]) -> list[Query]:
    panels = dashboard["panels"]
    return [
        Query(dashboard["title"], panel["title"], target["expr"])
        for panel in panels
        for target in panel.get("targets", ())
    ]


def variables(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """All but the data source."""
    return [variable for variable in dashboard["templating"]["list"] if variable["type"] != "datasource"]


def choices(prometheus: Prometheus, dashboard: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Each choice of values that a user has for the variables; where all values may be chosen at once, these are."""
    yield from _choices(prometheus, variables(dashboard), {})


def _choices(prometheus: Prometheus, left: list[dict[str, Any]], chosen: dict[str, str]) -> Iterator[dict[str, str]]:
    if not left:
        yield chosen
        return
    variable, *left = left
    for value in _values(prometheus, variable, chosen):
        yield from _choices(prometheus, left, {**chosen, variable["name"]: value})


def _values(prometheus: Prometheus, variable: dict[str, Any], chosen: dict[str, str]) -> list[str]:
    if variable["type"] == "textbox":
        return [variable["query"]]
    asked = re.fullmatch(r"label_values\((.+), (\w+)\)", substituted(variable["query"], chosen))
    assert asked, f"variable {variable['name']}: {variable['query']} is not label_values(SERIES, LABEL)"
    values = lambda: prometheus.get(f"label/{asked[2]}/values", **{"match[]": asked[1]})
    found = prometheus.process.wait_for(values, f"has values of the variable {variable['name']}: {variable['query']}")
    return [variable["allValue"]] if variable.get("includeAll") else found


def substituted(expression: str, chosen: dict[str, str]) -> str:
    """As Grafana sends it. A variable that is not defined stays as it is, which no Prometheus understands."""
    values = {**_BUILT_IN, **chosen}
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda found: values.get(found[1] or found[2], found[0]), expression)


# What is left out of an expression in PromQL, one after the other, until names of metrics are left.
_NO_METRICS = (
    r"'[^']*'|\"[^\"]*\"",
    r"\{[^}]*\}|\[[^]]*\]",
    r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)",
    r"[a-zA-Z_]\w*(?=\s*\()",
    r"\b(and|or|unless|bool|offset)\b",
    r"\b\d[\w.]*",
)


def metrics_of(expression: str) -> set[str]:
    """The names of metrics in an expression in PromQL."""
    for pattern in _NO_METRICS:
        expression = re.sub(pattern, " ", expression)
    return set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", expression))


def documented() -> set[str]:
    """The names in the tables of metrics, those of histograms with what Prometheus makes of them."""
    names = set()
    for document in _DOCUMENTS:
        rows = [
            line.split("|")
            for line in document.read_text().splitlines()
            if line.startswith(("| `weir_", "| `otelcol_", "| `fluentbit_", "| `telemetry_"))
        ]
        for row in rows:
            for name in re.findall(r"`([^`]+)`", row[1]):
                before, parts, after = re.fullmatch(r"(\w*)(?:\{([\w,]+)\})?(\w*)", name).groups()  # type: ignore[union-attr]
                names |= {f"{before}{part}{after}" for part in (parts or "").split(",")}
    return names | {
        f"{name}_{part}" for name in names if name.endswith("_seconds") for part in ("bucket", "count", "sum")
    }


def of_clusters() -> set[str]:
    """Names of metrics that only the operator, or a node of a cluster, has."""
    return {name for name in documented() if re.match("weir_(operator|watch|cluster|runtime)_", name)}


def queries_of_operations() -> list[str]:
    """Those that docs/operations.md looks for a loss with."""
    [block] = re.findall(r"```promql\n(.*?)```", (_ROOT / "docs" / "operations.md").read_text(), re.DOTALL)
    return [line.partition("#")[0].strip() for line in block.splitlines()]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


# What takes minutes there takes seconds here, in ranges, in `for`, and in thresholds, which stand as `15 * 60`. A name
# of a recording rule keeps its `10m`. Of tens of hours nobody can wait for a sixtieth, so these become seconds, too.
_SCALE = 60
_UNITS = {"m": 60, "h": 3600}


def write_scaled_rules(path: Path, scale: int = _SCALE) -> Path:
    """The rules for a Prometheus that scrapes every second and not every minute. With a smaller scale, a process may
    stand still for longer before that is trouble."""
    document = yaml.safe_load(RULES.read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["expr"] = _scaled(rule["expr"], scale)
            if "for" in rule:
                rule["for"] = _seconds(rule["for"], scale)
            annotations = rule.get("annotations", {})
            annotations.update({name: _scaled(text, scale) for name, text in annotations.items()})
    path.write_text(yaml.safe_dump(document))
    return path


def _scaled(text: str, scale: int) -> str:
    text = re.sub(r"\[(\d+[mh])\]", lambda found: f"[{_seconds(found[1], scale)}]", text)
    text = re.sub(r"\b(\d\d) \* 3600\b", r"\1", text)
    return re.sub(r"\* (60|3600)\b", lambda found: f"* {int(found[1]) // scale}", text)


def _seconds(duration: str, scale: int) -> str:
    return f"{int(duration[:-1]) * _UNITS[duration[-1]] // scale}s"
