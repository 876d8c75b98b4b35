"""What came of scrapes, in a form in which that of two scrapers can be compared."""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .items import Item

Point = dict[str, Any]
# What a scraper said of one target at one scrape: points by their identity.
Scrape = dict[str, list[Point]]

NO_RECORDED_VALUE = 1
# Metrics about scrapes.
COUNTS = ("scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_series_added")
OF_SCRAPES = ("up", "scrape_duration_seconds", *COUNTS)
_TIMES = ("timeUnixNano", "startTimeUnixNano")
_SOON = 10_000_000_000


def by_target(items: Iterable[Item]) -> dict[str, list[Item]]:
    """By the port of the target, which nothing on its page changes."""
    found: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        found[item["resource"]["attributes"]["server.port"]].append(item)
    return found


def scrape_times(items: Iterable[Item]) -> list[int]:
    """When a target was scraped, by the metric that says whether it could be."""
    return sorted({time(item) for item in items if item["metric"]["name"] == "up"})


def durations(items: Iterable[Item]) -> list[float]:
    """How long scrapes took. A metric of a page that has this name has attributes in these tests."""
    about = (it["item"] for it in items if it["metric"]["name"] == "scrape_duration_seconds")
    return [said["asDouble"] for said in about if "asDouble" in said and not said.get("attributes")]


def told(items: list[Item]) -> list[Item]:
    """Without what came of a scrape of which `up` is still on its way: it is sent behind the page."""
    last = max(scrape_times(items))
    return [item for item in items if not last < time(item) < last + _SOON]


def time(item: Item) -> int:
    return int(item["item"]["timeUnixNano"])


def scrapes(items: Iterable[Item], count: int) -> list[Scrape]:
    """The first scrapes of a target, and at the end what has times of its own, said of any of its pages."""
    items = list(items)
    times = scrape_times(items)
    places = {at: index for index, at in enumerate(times)}
    found: list[Scrape] = [defaultdict(list) for _ in range(count + 1)]
    for item in items:
        place = places.get(time(item), count)
        if place < count:
            found[place][identity(item)].append(point(item, times))
        elif time(item) not in places:
            said, own = found[count][identity(item)], point(item, times) | {"time": time(item)}
            # The last page is scraped again and again.
            if own not in said:
                said.append(own)
    return found


def last_page(items: list[Item], pages: int) -> list[Item]:
    """Without what came of serving the last of so many pages again."""
    times = scrape_times(items)
    return [item for item in items if time(item) not in times or time(item) < times[pages]]


def brief(items: Iterable[Item]) -> list[str]:
    """What is said of the last page that was scraped, in few words."""
    items = list(items)
    last = max(scrape_times(items))
    now = [item for item in items if time(item) == last or time(item) not in scrape_times(items)]
    if not any(item["metric"]["name"] == "up" and item["item"]["asDouble"] == 1 for item in now):
        return ["refused"]
    told = {_briefly(item) for item in now if item["metric"]["name"] not in OF_SCRAPES}
    return sorted(told)


def _briefly(item: Item) -> str:
    said = item["item"]
    labels = ",".join(f"{name}={value}" for name, value in sorted(said.get("attributes", {}).items()))
    words = [item["metric"]["type"], item["metric"]["name"] + (f"{{{labels}}}" if labels else "")]
    if said.get("flags") == NO_RECORDED_VALUE:
        return " ".join([*words, "gone"])
    if item["metric"]["type"] == "exponentialHistogram":
        sides = [said[side] for side in ("negative", "positive") if said[side]]
        words += ["count", str(said.get("count", 0)), "zero", str(said.get("zeroCount", 0)), str(said.get("sum"))]
        words += [f"{side.get('offset', 0)}{[int(count) for count in side['bucketCounts']]}" for side in sides]
    elif item["metric"]["type"] in ("histogram", "summary"):
        buckets = [int(count) for count in said.get("bucketCounts", [])]
        quantiles = [one["value"] for one in said.get("quantileValues", [])]
        words += ["count", str(said.get("count", 0)), str(buckets + quantiles)]
    else:
        words.append(str(said["asDouble"]))
    for exemplar in said.get("exemplars", []):
        words += ["example", *(f"{name}={value}" for name, value in exemplar.get("filteredAttributes", {}).items())]
        words += ["span", exemplar["spanId"]] if exemplar.get("spanId") else []
    return " ".join(words)


def identity(item: Item) -> str:
    """Everything about a data point but what it says."""
    said = {
        "metric": item["metric"],
        "attributes": item["item"].get("attributes", {}),
        "resource": item["resource"],
        "scope": item["scope"],
    }
    return json.dumps(said, sort_keys=True, ensure_ascii=False)


def point(item: Item, times: list[int]) -> Point:
    """What a data point says. Times of scrapes are told by their numbers, because no two scrapers have the same."""
    said = {name: value for name, value in item["item"].items() if name not in ("attributes", *_TIMES)}
    for name in ("count", "bucketCounts"):
        if name in said:
            said[name] = json.loads(json.dumps(said[name]).replace('"', ""))
    start = int(item["item"].get("startTimeUnixNano", 0))
    if start:
        said["start"] = f"scrape {times.index(start)}" if start in times else start
    if item["metric"]["name"] == "scrape_duration_seconds":
        assert float(said.pop("asDouble")) > 0
    if "exemplars" in said:
        said["exemplars"] = sorted((_exemplar(one, item) for one in said["exemplars"]), key=json.dumps)
    return said


def _exemplar(exemplar: Point, item: Item) -> Point:
    at = exemplar.get("timeUnixNano")
    return exemplar | {"timeUnixNano": "that of its point" if at == item["item"]["timeUnixNano"] else at}
