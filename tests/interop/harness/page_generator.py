"""Pages by chance: families of all types whose series come, go, return and begin anew. A seed always gives the same."""

import random

from .pages import Page, openmetrics, text

_WORDS = ["red", "green", "", "caf\u00e9", 'quo"te', "back\\slash", "new\nline", "{}", "a,b=c # 1", " "]
_BOUNDS = [0.005, 0.1, 1, 2.5, 10, 1000]
_TYPES = ["counter", "gauge", "histogram", "summary", "untyped", None]
_OPENMETRICS_TYPES = ["counter", "gauge", "histogram", "summary", "unknown", "info", "stateset", None]


class Sequence:
    """Pages of one target that follow each other."""

    def __init__(self, seed: int, count: int):
        self._random = random.Random(seed)
        self._is_openmetrics = seed % 2 == 1
        types = _OPENMETRICS_TYPES if self._is_openmetrics else _TYPES
        count_of_families = self._random.randint(1, 8)
        self._families = [_Family(self._random, index, self._random.choice(types)) for index in range(count_of_families)]
        self.pages: list[Page] = []
        for _ in range(count):
            body = self._page()
            self.pages += openmetrics(body) if self._is_openmetrics else text(body)

    def _page(self) -> str:
        chance = self._random
        for family in self._families:
            family.move()
        shown = [family for family in self._families if chance.random() < 0.9]
        if chance.random() < 0.1:
            chance.shuffle(shown)
        # After an empty page, new series are counted in another way.
        return "".join(family.text(self._is_openmetrics) for family in shown) or ("" if self._is_openmetrics else "\n")


class _Family:
    def __init__(self, chance: random.Random, index: int, kind: str | None):
        self.chance, self.kind = chance, kind
        self.name = f"family_{index}_{chance.choice(['seconds', 'bytes', 'things'])}"
        self.unit = chance.choice(["", self.name.rsplit("_")[-1]])
        self.help = chance.choice(["", "What it is.", "With \\ and\nlines.", "\u00fcber"])
        self.bounds = sorted(chance.sample(_BOUNDS, chance.randint(0, len(_BOUNDS))))
        self.quantiles = sorted(chance.sample([0.1, 0.5, 0.9, 0.99], chance.randint(0, 4)))
        self.has_created, self.has_sum = chance.random() < 0.5, chance.random() < 0.9
        names = chance.sample(["kind", "path", "job", "code", "zone"], chance.randint(0, 3))
        self.all = [_Series(chance, {name: chance.choice(_WORDS) for name in names} | {"n": str(n)}) for n in range(6)]
        self.series = self.all[:3]

    def move(self) -> None:
        """Values move in all; now and then a series comes, goes or begins anew."""
        for series in self.all:
            series.move()
        if self.chance.random() < 0.3:
            self.series = self.chance.sample(self.all, self.chance.randint(1, len(self.all)))

    def text(self, is_openmetrics: bool) -> str:
        family = self.name if is_openmetrics or self.kind != "counter" else f"{self.name}_total"
        lines = []
        if self.help:
            lines.append(f"# HELP {family} {_escaped(self.help, is_openmetrics)}")
        if self.kind:
            lines.append(f"# TYPE {family} {self.kind}")
        if self.unit and is_openmetrics and self.kind not in ("info", "stateset", None):
            lines.append(f"# UNIT {family} {self.unit}")
        for series in self.series:
            lines += self._lines(series, is_openmetrics)
        return "".join(line + "\n" for line in lines)

    def _lines(self, series: "_Series", is_openmetrics: bool) -> list[str]:
        name, labels = self.name, series.labels
        created = [f"{name}_created{_labels(labels)} {series.created}"] if self.has_created and is_openmetrics else []
        if self.kind == "counter":
            return [f"{name}_total{_labels(labels)} {series.count}", *created]
        if self.kind in ("histogram", "summary"):
            lines = [f"{name}_sum{_labels(labels)} {series.value}"] if self.has_sum else []
            lines.append(f"{name}_count{_labels(labels)} {series.count}")
            return self._parts(series) + lines + created
        if self.kind == "info":
            return [f"{name}_info{_labels(labels)} 1"]
        if self.kind == "stateset":
            return [f"{name}{_labels(labels | {name: state})} {int(state == 'on')}" for state in ("on", "off")]
        return [f"{name}{_labels(labels)} {series.value}"]

    def _parts(self, series: "_Series") -> list[str]:
        if self.kind == "summary":
            of = series.value
            return [f"{self.name}{_labels(series.labels | {'quantile': str(q)})} {of}" for q in self.quantiles]
        counts = [series.count * (index + 1) // (len(self.bounds) + 1) for index in range(len(self.bounds))]
        parts = [*zip(map(str, map(float, self.bounds)), counts), ("+Inf", series.count)]
        return [f"{self.name}_bucket{_labels(series.labels | {'le': bound})} {count}" for bound, count in parts]


class _Series:
    def __init__(self, chance: random.Random, labels: dict[str, str]):
        self.chance, self.labels = chance, labels
        self.value, self.count, self.created = "0", 0, 1_700_000_000

    def move(self) -> None:
        chance = self.chance
        exact = chance.choice([chance.uniform(-1e3, 1e3), chance.random() * 10.0 ** chance.randint(-20, 20)])
        whole = chance.randint(-10, 10**18)
        self.value = chance.choice([repr(exact), repr(exact), str(whole), "NaN", "+Inf", "-Inf", "1e3"])
        if chance.random() < 0.1:
            self.count, self.created = 0, self.created + 60
        self.count += chance.choice([0, 1, chance.randint(0, 1000), chance.randint(0, 2**53)])


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value, True)}"' for name, value in labels.items()) + "}"


def _escaped(text: str, has_quotes: bool) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if has_quotes else escaped
