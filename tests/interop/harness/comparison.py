"""Whether the receiver and Weir said the same: point by point, with the documented differences undone."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

from .items import Item
from .pages import PROTOBUF, Target
from .process import Gone, wait_until
from .receiver import JOB, Scrapers
from .scrapes import COUNTS, NO_RECORDED_VALUE, OF_SCRAPES, Point, Scrape, identity, point, scrapes

_SHOWN = 5
# The name of the receiver, and the one that Kyma's agent gives it.
RECEIVER_SCOPE_NAME = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver"
SCOPE_NAME = "io.kyma-project.telemetry/prometheus"
# What the receiver says in a point that says that there is no value.
_OF_VALUES = ("bucketCounts", "explicitBounds", "quantileValues", "startTimeUnixNano")
_MILLISECOND = 1_000_000


def assert_same(scrapers: Scrapers, targets: list[Target], seed: int) -> None:
    """Both said the same of every page."""
    different = [difference for target in targets for difference in differences(target, *scrapers.said(target))]
    shown = "\n\n".join(different[:_SHOWN])
    assert not different, f"{len(different)} differences, for example (seed {seed}):\n{shown}"


def assert_same_values(scrapers: Scrapers, address: str) -> None:
    """Both say the same of a real component."""

    def difference() -> list[str]:
        return differences_of_values(*scrapers.said_until_now(address), scrapers.native)

    # A value that is new is in the one before it is in the other.
    try:
        wait_until(lambda: not difference(), "both have the same metrics", 60)
    except Gone:
        last = difference()
        raise AssertionError(f"{len(last)} differences, for example:\n" + "\n".join(last[:_SHOWN])) from None


def differences_of_values(theirs: Iterable[Item], ours: Iterable[Item], in_protobuf: bool) -> list[str]:
    """What only one of both said of a real component, which changes while it is scraped."""
    theirs, ours = map(expected, theirs), map(plain, ours)
    if in_protobuf:
        # The receiver does not ask for UTF-8 there.
        theirs, ours = map(escaped, theirs), map(escaped, ours)
    theirs, ours = values(theirs), values(ours)
    assert len(theirs) > len(OF_SCRAPES), "nothing but metrics about scrapes"
    only_one_has = (steady(theirs) - ours.keys()) | (steady(ours) - theirs.keys())
    different = [f"{key} is {theirs[key][0]} and {ours[key][0]}" for key in differing(theirs, ours)]
    return [f"only one has {key}" for key in only_one_has] + different


def values(items: Iterable[Item]) -> dict[str, list[str]]:
    """What was said of each series, without times."""
    found: dict[str, list[str]] = defaultdict(list)
    for item in items:
        said = point(item, [])
        if said.get("flags") != NO_RECORDED_VALUE:
            without_times = {name: value for name, value in said.items() if name not in ("start", "exemplars")}
            found[identity(item)].append(json.dumps(without_times, sort_keys=True))
    return found


def steady(series: dict[str, list[str]]) -> set[str]:
    """Series that were there in most scrapes: others may be there just when one of the two looks."""
    scrapes = max(map(len, series.values()))
    return {key for key, said in series.items() if 2 * len(said) > scrapes}


def differing(theirs: dict[str, list[str]], ours: dict[str, list[str]]) -> list[str]:
    """Series that had one and the same value each time, but not the same in both."""
    both = theirs.keys() & ours.keys()
    return [key for key in both if len({*theirs[key]}) == len({*ours[key]}) == 1 and theirs[key][0] != ours[key][0]]


def differences(target: Target, theirs: list[Item], ours: list[Item]) -> Iterator[str]:
    count = len(target.pages)
    wanted, found = scrapes(map(expected, theirs), count), scrapes(map(plain, ours), count)
    if target.pages[0].content_type == PROTOBUF:
        # The receiver calculates with fractions of seconds here, and a millisecond is what it wants to say.
        in_milliseconds(wanted, _MILLISECOND // 2)
        in_milliseconds(found, 0)
        forget_details(wanted, found)
    forget_refused_pages(wanted[:count])
    add_starts(wanted[:count])
    for said in found[count].values():
        for own in said:
            # Those of points with times of their own are times of pages, too.
            own.pop("start", None)
    for index, (one, other) in enumerate(zip(wanted, found)):
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                said = "\n".join(json.dumps(points.get(key), sort_keys=True) for points in (one, other))
                yield f"{target.name!r}, page {index}, the receiver and Weir of {key}:\n{said}"


def plain(item: Item) -> Item:
    """Weir's point, without its version."""
    return {**item, "scope": SCOPE_NAME} if item["scope"]["name"] == SCOPE_NAME else item


def expected(item: Item) -> Item:
    """The receiver's point, with the documented differences undone."""
    said, metric, resource = item["item"], item["metric"], item["resource"]
    if said.get("flags") == NO_RECORDED_VALUE:
        said = {name: value for name, value in said.items() if name not in _OF_VALUES}
    if "exemplars" in said:
        said = {**said, "exemplars": [without_escapes(exemplar) for exemplar in said["exemplars"]]}
    if is_of_scrape(item):
        # Without what target_info says.
        resource = {"attributes": of_target(resource["attributes"]["server.port"])}
    elif metric["name"] in OF_SCRAPES:
        metric = {name: value for name, value in metric.items() if name not in ("description", "unit")}
        metric["metadata"] = {"prometheus.type": "unknown"}
    scope = SCOPE_NAME if item["scope"]["name"] == RECEIVER_SCOPE_NAME else item["scope"]
    return {**item, "item": said, "metric": metric, "resource": resource, "scope": scope}


def escaped(item: Item) -> Item:
    """Names as targets write them for those who do not ask for UTF-8. What target_info says goes over the rest."""

    def names(attributes: Point) -> Point:
        dotted = {name.replace(".", "_"): value for name, value in attributes.items() if "." in name}
        return dotted | {name: value for name, value in attributes.items() if "." not in name}

    said = {**item["item"], "attributes": names(item["item"].get("attributes", {}))}
    metric = {**item["metric"], "name": item["metric"]["name"].replace(".", "_")}
    resource = {**item["resource"], "attributes": names(item["resource"]["attributes"])}
    return {**item, "item": said, "metric": metric, "resource": resource}


def without_escapes(exemplar: Point) -> Point:
    attributes = exemplar.get("filteredAttributes", {})
    escapes = (('\\"', '"'), ("\\n", "\n"), ("\\\\", "\\"))
    for escape, character in escapes:
        attributes = {name: value.replace(escape, character) for name, value in attributes.items()}
    return {**exemplar, "filteredAttributes": attributes} if attributes else exemplar


def in_milliseconds(scrapes: list[Scrape], added: int) -> None:
    """Cuts off what is less than a millisecond, of all times that are on pages."""
    for own in (own for scrape in scrapes for points in scrape.values() for own in points):
        if isinstance(start := own.get("start"), int):
            own["start"] = _cut(start + added)
        for exemplar in own.get("exemplars", []):
            if (at := str(exemplar["timeUnixNano"])).isdigit():
                exemplar["timeUnixNano"] = _cut(int(at) + added)
        own.get("exemplars", []).sort(key=json.dumps)


def forget_details(wanted: list[Scrape], found: list[Scrape]) -> None:
    """In a family, the receiver reads exemplars of the first native histogram alone. A sum that is not there is 0."""
    for one, other in zip(wanted, found):
        for key in one.keys() & other.keys():
            is_native = json.loads(key)["metric"]["type"] == "exponentialHistogram"
            for theirs, ours in zip(one[key], other[key]):
                if is_native and "exemplars" not in theirs:
                    ours.pop("exemplars", None)
                if theirs.get("sum") == 0 and "sum" not in ours:
                    theirs.pop("sum")


def _cut(time: int) -> int:
    return time - time % _MILLISECOND


def forget_refused_pages(scrapes: list[Scrape]) -> None:
    """The receiver counts the lines before the one that it refused, and says afterwards that these series are gone."""
    known: set[str] = set()
    for scrape in scrapes:
        if not was_scraped(scrape):
            for key, points in scrape.items():
                if json.loads(key)["metric"]["name"] in COUNTS:
                    points[0]["asDouble"] = 0
        for key, points in list(scrape.items()):
            # A point that says that a series is gone has the resource of that scrape, which may be another one.
            series = json.dumps({**json.loads(key), "resource": None})
            if any(own.get("flags") != NO_RECORDED_VALUE for own in points):
                known.add(series)
            elif series not in known:
                del scrape[key]


def add_starts(scrapes: list[Scrape]) -> None:
    """Says since when counts count, where the receiver does not: since they were seen first, or last fell."""
    known: dict[str, tuple[float, str]] = {}
    for index, scrape in enumerate(scrapes):
        seen: dict[str, tuple[float, str]] = {}
        for key, points in scrape.items():
            for own in points:
                if (total := counted(key, own)) is None:
                    continue
                last, start = known.get(key, (0.0, f"scrape {index}"))
                start = f"scrape {index}" if total < last else start
                seen[key] = (total, start)
                own.setdefault("start", start)
        known = seen if was_scraped(scrape) else known


def counted(key: str, own: Point) -> float | None:
    """What a point has counted, if it counts."""
    metric = json.loads(key)["metric"]
    counts = metric.get("isMonotonic") or metric["type"] in ("histogram", "exponentialHistogram", "summary")
    if own.get("flags") == NO_RECORDED_VALUE or not counts:
        return None
    return float(own.get("asDouble", own.get("count", 0)))


def was_scraped(scrape: Scrape) -> bool:
    ups = [points for key, points in scrape.items() if json.loads(key)["metric"]["name"] == "up"]
    return any(points[0].get("asDouble") == 1 for points in ups)


def is_of_scrape(item: Item) -> bool:
    """Whether it is about a scrape. A metric of the page that has such a name has attributes in these tests."""
    return item["metric"]["name"] in OF_SCRAPES and not item["item"].get("attributes")


def of_target(port: str) -> Point:
    """Attributes of the resource of a target that says nothing of itself."""
    instance = f"127.0.0.1:{port}"
    return {"service.name": JOB, "service.instance.id": instance, "server.port": port, "url.scheme": "http"}
