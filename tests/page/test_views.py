"""What the views of figures show, and how one goes through them with keys."""

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from selenium.webdriver.common.keys import Keys

from browser import DEADLINE_S, Page
from harness.certificates import Authority
from harness.http_backend import HttpBackend
from harness.pages import Target, text
from harness.process import Lab
from harness.weir import pipeline
from scenes import FILTER, STATEMENT, Scene, Sick, Traffic, scraping, send_log, send_spans, shop, span, write_log_files

ROWS = "#pipelines .list:not(#events) tr[data-key]"
NOWHERE = "http://127.0.0.1:9"


def test_a_busy_process_shows_what_flows(page: Page, busy: Scene, pictures: Path) -> None:
    page.open(busy.weir.admin)
    page.wait_text("#summary", "2 pipelines, all healthy")
    row = "#pipelines tr[data-key='traces/shop']"
    came = lambda: page.text(f"{row} td:nth-child(5)").split("\n")
    page.wait(lambda: float(came()[0]) > 10 and "B" in came()[-1], "spans and bytes a second")
    page.wait_text(f"{row} td:nth-child(3)", "removed")
    page.click(row)
    page.wait_text("#detail", f"removed: {FILTER}")
    for rule, text in (("transform[0].statements[0]", STATEMENT), ("filter[0].conditions[0]", FILTER)):
        assert re.search(rf"^{re.escape(rule)}: [\d,]+ matched, .*: {re.escape(text)}$", page.text("#detail"), re.M)
    assert "[object" not in page.text("body") and "undefined" not in page.text("body")
    page.picture(pictures / "busy.png")


def test_the_hour_has_axes_and_tells_its_values(page: Page, busy: Scene, pictures: Path) -> None:
    page.open(busy.weir.admin)
    page.click("#pipelines tr[data-key='traces/shop']")
    plot = "#detail svg.hour"

    def value(name: str) -> int:
        return int(page.one(plot).get_attribute(f"aria-value{name}"))

    page.wait(lambda: value("max") - value("min") >= 5, "some seconds are told")
    ticks = page.driver.execute_script("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", f"{plot} text")
    assert {"items/s", "waiting", "0"} <= set(ticks), ticks
    assert sum(bool(re.fullmatch(r"\d\d:\d\d", tick)) for tick in ticks) >= 2, ticks
    values = r"\d\d:\d\d:\d\d: [\d.,]+ items/s came, [\d.,]+ items/s went, 0 items were lost, [\d,]+ items waited(; .+)?"
    # The newest second is just before the axis at the right.
    page.point(plot, 0.918)
    page.wait(lambda: re.fullmatch(values, page.text("#hour-value")) and page.all(f"{plot} .mark circle"), "the values there")
    page.picture(pictures / "hour.png")
    page.point("h1", 0.5)
    page.wait(lambda: not page.text("#hour-value").strip(), "they go with the pointer")
    page.driver.execute_script("document.querySelector(arguments[0]).focus()", plot)
    page.strike(Keys.END)
    newest = value("now")
    page.strike(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.wait(lambda: value("now") == newest - 2, "two seconds before")
    assert re.fullmatch(values, page.one(plot).get_attribute("aria-valuetext"))
    assert page.text("#hour-value") == page.one(plot).get_attribute("aria-valuetext")
    page.strike(Keys.HOME)
    page.wait(lambda: value("now") == value("min"), "the oldest second")
    page.strike(Keys.ESCAPE)
    page.wait(lambda: not page.see("#detail"), "the detail closes")


def test_the_hour_is_light_or_dark_as_the_rest_is(page: Page, busy: Scene, pictures: Path) -> None:
    page.open(busy.weir.admin)
    page.click("#pipelines tr[data-key='traces/shop']")
    page.wait(lambda: page.all("#detail svg.hour text"), "the plot")

    def colours(scheme: str) -> set[str]:
        page.scheme(scheme)
        page.picture(pictures / f"hour-{scheme}.png")
        script = "const of = getComputedStyle(document.querySelector(arguments[0])); return [of.fill, of.stroke]"
        return {colour for part in ("text", ".grid") for colour in page.driver.execute_script(script, f"#detail svg.hour {part}")}

    light, dark = colours("light"), colours("dark")
    page.scheme(None)
    assert len(light - dark) >= 2, (light, dark)


def test_a_sick_process_shows_its_trouble_and_samples(page: Page, sick: Scene, pictures: Path) -> None:
    send_spans(sick.weir, span("ab" * 16, "/orders"))
    page.open(sick.weir.admin, "destinations")
    page.wait_text("#destinations tr[data-key='traces/shop']", "unreachable")
    page.go("losses")
    page.wait_text("#losses", "refused by the backend")
    # Samples may come after the rest.
    answers = lambda: page.texts("#losses tbody td:nth-child(4)")
    page.wait(lambda: any("400" in answer or "INVALID_ARGUMENT" in answer for answer in answers()), "samples")
    page.picture(pictures / "sick.png")


def test_what_is_given_up_on_the_disk_leaves_samples(page: Page, lab: Lab, binary: Path) -> None:
    document = shop(NOWHERE)
    document["metadata"]["annotations"] = {"weir.dev/backlog-max-bytes": "1Mi"}
    scene = Scene(lab, binary, documents=[document])
    page.open(scene.weir.admin, "losses")
    row = "#losses tr[data-key^='traces/shop dropped backlog_full']"

    def is_lost() -> bool:
        # Nothing is lost before the backend has been away for some seconds: clients are asked to come again.
        with suppress(requests.HTTPError):
            send_spans(scene.weir, span("cd" * 16, f"/{'x' * 200_000}"))
        return page.see(row)

    page.wait(is_lost, "a loss")
    samples = "#losses tr[data-key^='traces/shop dropped 2']"
    page.wait_text(samples, "weir.dev/backlog-max-bytes")
    assert "Copy" in page.text(samples)
    page.go("find")
    page.one("#find-text").send_keys("cd" * 16, Keys.ENTER)
    page.wait_text("#find-ways", "given up before")
    scene.weir.stop()


def test_the_sick_pipeline_is_first_and_says_why(page: Page, lab: Lab, binary: Path, pictures: Path) -> None:
    sink = Sick(lab, binary)
    scene = Scene(lab, binary, sink=sink, documents=[pipeline("logs", "shop", f"http://{sink.grpc}"), shop(NOWHERE)])
    traffic = Traffic(scene.weir)
    page.open(scene.weir.admin)
    page.wait(lambda: keys(page) == ["traces/shop", "logs/shop"], "the sick one is first")
    # That is told at once, and what to call it some seconds later.
    page.wait_text("#summary", "2 pipelines, 1 with a trouble")
    words = "#pipelines tr.below"
    page.wait_text(words, "Connection refused")
    assert len(page.all(words)) == 1 and page.one(words).get_attribute("data-under") == "traces/shop"
    page.press("/")
    page.press(Keys.ARROW_DOWN)
    assert page.focus() == "traces/shop"
    page.press(Keys.ARROW_DOWN)
    assert page.focus() == "logs/shop", "there is nothing to open between the rows"
    page.click(words)
    page.wait_text("#detail", "traces/shop: nothing delivered")
    assert "Connection refused" in page.text("#detail")
    page.wait(lambda: re.search(r"traces/shop\s+healthy → nothing delivered", page.text("#events tbody tr:first-child")), "what changed is listed")
    page.picture(pictures / "sick-pipelines.png")
    traffic.close()
    scene.weir.stop()


def keys(page: Page) -> list[str]:
    return [row.get_attribute("data-key") for row in page.all(ROWS)]


def test_what_happened_is_one_list_and_marked_in_the_hour(page: Page, lab: Lab, binary: Path, pictures: Path) -> None:
    scene = Scene(lab, binary)
    to = f"http://{scene.sink.grpc}"
    newest = "#events tbody tr:first-child"
    page.open(scene.weir.admin)
    page.wait_text(newest, "started with a configuration (the start of the process)")
    changed = shop(to)
    changed["spec"]["filter"] = [{"conditions": ['span.name == "GET /cart"']}]
    scene.weir.configure(changed, pipeline("logs", "shop", to))
    page.wait_text("#events", "changed traces/shop")
    assert "took up another configuration (a change of its files)" in page.text("#events")
    marks = "#detail svg.hour .event"
    page.click("#pipelines tr[data-key='logs/shop']")
    page.wait(lambda: len(page.all(marks)) == 1, "nothing but the start is of this pipeline")
    page.click("#pipelines tr[data-key='traces/shop']")
    page.wait(lambda: len(page.all(marks)) == 2, "the start and the change")

    def is_read() -> bool:
        # The mark moves on with time.
        page.point("#detail svg.hour", float(page.one(marks).get_attribute("x1")) / 760)
        return "took up another configuration" in page.text("#hour-value")

    page.wait(is_read, "the words of a mark")
    page.picture(pictures / "events.png")
    changed["spec"]["filter"] = [{"conditions": ["span.nam == 1"]}]
    scene.weir.configure(changed, pipeline("logs", "shop", to))
    page.wait_text(newest, "refused a configuration")
    assert 'did you mean "name"?' in page.text(newest)
    manifest = scene.weir.manifest
    [line] = [number for number, line in enumerate(manifest.read_text().splitlines(), 1) if "span.nam ==" in line]
    assert f"{manifest.name}:{line}:" in page.text(newest), "where it is wrong"
    page.open(scene.weir.metrics_address)
    page.wait(lambda: len(page.all(ROWS)) == 2, "two pipelines")
    page.wait_text("#events", "The self monitor has told of nothing since the start of the process.")
    scene.weir.stop()


def test_losses_stand_with_their_pipeline(page: Page, sick: Scene) -> None:
    page.open(sick.weir.admin)
    page.wait_text("#pipelines tr.below[data-under='logs/shop']", "Rejected: ")
    page.click("#troubled")
    assert "logs/shop" in keys(page)


def test_red_is_what_has_come_to_a_stop(page: Page, lab: Lab, binary: Path, pictures: Path) -> None:
    sink = Sick(lab, binary)
    documents = [shop(NOWHERE), pipeline("logs", "shop", f"http://{sink.grpc}")]
    scene = Scene(lab, binary, sink=sink, documents=documents)
    sink.refuse("400:50")
    send_spans(scene.weir, *(span("ab" * 16, "/orders", number) for number in range(1, 5)))
    page.open(scene.weir.admin)
    lost, stands = "#pipelines tr[data-key='logs/shop'] td:nth-child(9)", "#pipelines tr[data-key='traces/shop'] th .dot"
    why = "#pipelines tr.below[data-under='logs/shop']"
    has = lambda css, kind: kind in page.one(css).get_attribute("class").split()

    def is_losing() -> bool:
        send_log(scene.weir, "a record that may be refused")
        is_fast = re.search(r"^[1-9][\d,]*\n0?\.?[\d,]*[1-9][\d.,]* /s now$", page.text(lost))
        return bool(is_fast and re.search(r"Rejected:\s*\w+ [1-9][\d,]* \([\d.,]*[1-9][\d.,]*/s now\)", page.text(why)))

    page.wait(is_losing, "losses a second, and for each reason")
    page.wait(lambda: has(lost, "warn"), "some are lost, and others are delivered")
    page.wait(lambda: has(stands, "bad") and has("#summary", "bad"), "nothing is delivered")
    page.picture(pictures / "stopped.png")
    scene.weir.stop()


# Without waiting for it: what the page makes of a loss that was so many seconds ago.
PAST = """
    const done = arguments[0];
    import("/state.js").then(({ lossKind, state }) => {
      const kept = state.losses;
      const kinds = [10, 400].map((ago) => {
        state.losses = [{ pipeline: "traces/shop", way: "dropped", last_at: new Date(Date.parse(state.now.at) - 1000 * ago).toISOString() }];
        return lossKind("traces/shop");
      });
      state.losses = kept;
      done(kinds);
    });
"""


def test_losses_that_are_over_have_no_colour(page: Page, idle: Scene) -> None:
    page.open(idle.weir.admin)
    page.wait(lambda: len(page.all(ROWS)) == 2, "two pipelines")
    assert page.driver.execute_async_script(PAST) == ["warn", None]


# What the page says of reasons for which 3 items were lost: one as fast as that now, one not any more, one of which
# nothing is known as yet, and one of another pipeline.
REASONS = """
    const done = arguments[0];
    import("/state.js").then(({ lostReasons, state }) => {
      const kept = state.losses;
      const of = (pipeline, reason, items_per_second) => ({ pipeline, way: "dropped", reason, items_per_second });
      state.losses = [of("logs/shop", "d", 9), of("traces/shop", "a", 12), of("traces/shop", "b", 0), of("traces/shop", "c", null)];
      const said = lostReasons({ pipeline: "traces/shop", books: { dropped: { a: 3, b: 3, c: 3, d: 3, e: 0 } } }, "dropped");
      state.losses = kept;
      done(said);
    });
"""


def test_reasons_say_how_fast_items_are_lost_now(page: Page, idle: Scene) -> None:
    page.open(idle.weir.admin)
    page.wait(lambda: len(page.all(ROWS)) == 2, "two pipelines")
    assert page.driver.execute_async_script(REASONS) == "a 3 (12/s now), b 3, c 3, d 3"


def test_destinations_say_when_a_certificate_ends(page: Page, lab: Lab, binary: Path, pictures: Path) -> None:
    authority = Authority(lab.directory, "ca")
    backend = HttpBackend(identity=authority.issue("server"))
    tls = {"ca": {"value": authority.cert.read_text()}}
    document = pipeline("traces", "shop", backend.endpoint, protocol="http", tls=tls)
    scene = Scene(lab, binary, documents=[document])
    send_spans(scene.weir, span("ab" * 16, "/orders"))
    page.open(scene.weir.admin, "destinations")
    page.wait_text("#destinations tr[data-key='traces/shop']", "certificate ends in ")
    since = page.wait_text("#destinations tr[data-key='traces/shop']", "credentials in use since ")
    assert "client certificate" not in since, since
    page.picture(pictures / "certificate.png")
    scene.weir.stop()
    backend.close()


def test_destinations_count_answers_by_their_codes(page: Page, lab: Lab, binary: Path, pictures: Path) -> None:
    backend = HttpBackend(first=(503,))
    scene = Scene(lab, binary, documents=[pipeline("traces", "shop", backend.endpoint, protocol="http")])
    send_spans(scene.weir, span("ab" * 16, "/orders"))
    page.open(scene.weir.admin, "destinations")
    row = "#destinations tr[data-key='traces/shop']"
    page.wait_text(row, "200: 1 · 503: 1")
    page.wait_text(row, "lately: 50 % in ")
    page.picture(pictures / "codes.png")
    scene.weir.stop()
    backend.close()


def test_destinations_fit_a_small_screen(page: Page, sick: Scene, pictures: Path) -> None:
    send_spans(sick.weir, span("ab" * 16, "/orders"))
    before = page.driver.get_window_size()
    page.driver.set_window_size(1280, 900)
    page.open(sick.weir.admin)
    page.go("destinations")
    page.wait_text("#destinations tr.below[data-under='traces/shop']", "Connection refused")
    page.wait_text("#destinations tr[data-key='traces/shop']", "probed with one small request at a time")
    assert "retries left" in page.text("#destinations tr[data-key='logs/shop']")
    assert "credentials" not in page.text("#destinations"), "there are none"
    heads = page.texts("#destinations thead th")
    assert heads.index("Waiting") == 2, heads
    wide = "const at = document.querySelector('#destinations .scroll'); return at.scrollWidth - at.clientWidth"
    assert page.driver.execute_script(wide) == 0
    page.button("#destinations thead", "Waiting")
    page.wait(lambda: page.text("#destinations tbody tr:first-child").startswith("traces/shop"), "what waits most is first")
    page.picture(pictures / "destinations.png")
    page.driver.set_window_size(before["width"], before["height"])


def test_memory_says_what_its_parts_are_and_who_holds_what(page: Page, busy: Scene, pictures: Path) -> None:
    page.open(busy.weir.admin)
    page.go("memory")
    page.wait_text("#memory tr[data-key='read_back']", "read from the disk again")
    legend = page.texts("#memory td.words")
    assert len(legend) > 5 and all(legend), legend
    page.wait_text("#memory", "The stronger colour is in use")
    page.wait_text("#memory tr[data-key='clients']", "what clients have pushed")
    bar = page.one("#memory .held").get_attribute("aria-label")
    assert re.search(r"payloads: [\d.,]+ \w+ of ", bar) and "recent: " in bar, bar
    page.wait_text("#admission", "there is room for one of up to")
    numbers = [int(re.match(r"[\d,]+", fact).group().replace(",", "")) for fact in page.texts("#admission dd")[:4]]
    assert numbers[0] == sum(numbers[1:]) > 0, numbers
    facts = page.text("#admission")
    assert "−" in facts and "times its size" in facts and "because of " in facts, facts
    page.button("#memory thead", "Items that wait")
    page.wait(lambda: {"traces/shop", "logs/shop"} <= set(page.texts("#memory tbody th")), "the pipelines")
    page.picture(pictures / "memory.png")


DISK = "#memory > :last-child"


@pytest.mark.parametrize(("limit", "words"), [("1Mi", "enough for the 2.0 MiB"), ("512Ti", "less than the 1024 TiB")])
def test_memory_says_what_the_disk_has_room_for(page: Page, lab: Lab, binary: Path, limit: str, words: str) -> None:
    sink = Sick(lab, binary)
    documents = [shop(f"http://{sink.grpc}"), pipeline("logs", "shop", f"http://{sink.grpc}")]
    for document in documents:
        document["metadata"]["annotations"] = {"weir.dev/backlog-max-bytes": limit}
    scene = Scene(lab, binary, sink=sink, documents=documents)
    page.open(scene.weir.admin, "memory")
    page.wait_text(DISK, f"{words} that pipelines may still keep")
    bar = page.one(f"{DISK} [role=img]")
    size = r"[\d.]+ ([KMGT]i)?B"
    assert re.fullmatch(f"Room on the disk: the journal takes {size}, {size} are left", bar.accessible_name)
    assert not page.all(f"{DISK} .warn, {DISK} .bad"), "hardly anything of the room is taken"
    scene.weir.stop()


# What the page makes of a disk on which a journal of 800 B has so much room left: the colour, and whether there is a
# bar.
ROOM = """
    const done = arguments[0];
    Promise.all([import("/state.js"), import("/figures.js")]).then(([{ state }, { memory }]) => {
      const kept = state.now.journal;
      const disk = document.querySelector("#memory").lastChild;
      const shown = [201, 200, 0, null].map((disk_free_bytes) => {
        state.now.journal = { ...kept, disk_bytes: 800, disk_free_bytes };
        memory.show();
        return [disk.querySelector("dd span")?.className ?? "", disk.querySelectorAll(".held").length];
      });
      state.now.journal = kept;
      done(shown);
    });
"""


def test_a_disk_that_is_nearly_full_has_a_colour(page: Page, idle: Scene) -> None:
    page.open(idle.weir.admin, "memory")
    page.wait_text(DISK, "room left")
    assert page.driver.execute_async_script(ROOM) == [["", 1], ["warn", 1], ["bad", 1], ["", 0]]


def test_two_configurations_are_compared(page: Page, lab: Lab, binary: Path, pictures: Path) -> None:
    scene = Scene(lab, binary)
    to = f"http://{scene.sink.grpc}"
    page.open(scene.weir.admin)
    page.go("configuration")
    page.wait_text("#configuration-changes", "There is only one")
    page.wait_text("#configuration dl", "service enrichment otel")
    changed = shop(to)
    changed["spec"]["filter"] = [{"conditions": ['span.name == "GET /cart"']}]
    scene.weir.configure(changed, pipeline("logs", "shop", to))
    page.wait(lambda: page.all("#configuration tr[data-key] [data-act=compare]"), "a button of a row")
    assert nameless(page) == []
    page.button("#configuration", "With the one before")
    assert page.focus() == "configuration-compared"
    page.wait_text("#configuration-changes", "1 line added, 1 line removed.")
    lines = [page.text(f"#configuration-changes {kind}").strip() for kind in ("del", "ins")]
    rule = "traces/shop  filter[0].conditions[0]"
    assert lines == [f"- {rule}: {FILTER}", f'+ {rule}: span.name == "GET /cart"']
    file = str(scene.weir.manifest)
    for row in ("traces/shop", "2 "):
        assert file in page.text(f"#configuration tr[data-key^='{row}']"), "who changed it"
    page.picture(pictures / "configuration.png")
    page.choose("#configuration-before", page.one("#configuration-after").get_attribute("value"))
    page.wait_text("#configuration-changes", "Nothing that is shown of them differs")
    scene.weir.process.child.send_signal(signal.SIGHUP)
    for number, brought in enumerate(("the start of the process", "a change of its files", "SIGHUP"), 1):
        page.wait_text(f"#configuration tr[data-key^='{number} ']", brought)
    scene.weir.stop()


def test_the_page_of_a_target_is_read_with_a_click(page: Page, lab: Lab, binary: Path, pictures: Path) -> None:
    lines = 'a{path="<b id=markup>"} 1\na{password="s3cr3t"} 2'
    target, sink = Target("shop", text(f"{lines}\n")), Sick(lab, binary)
    urls = [f"http://{target.address}/metrics", f"{NOWHERE}/metrics"]
    scene = Scene(lab, binary, sink=sink, documents=[scraping("shop", f"http://{sink.grpc}", *urls)])
    page.open(scene.weir.admin, "targets")
    page.wait_text("#targets", "2 targets are scraped")
    page.wait(lambda: len(page.all("#targets tr[data-key] [data-act=page]")) == 2, "a button of each")
    assert nameless(page) == []
    shown = lambda: page.text("#target-page pre").strip()
    page.button(f"#targets tr[data-key='static {urls[0]}']", "Read its page")
    page.wait_text("#target-page h2", f"The page of {urls[0]}")
    assert page.focus() == f"The page of {urls[0]}"
    assert shown() == lines.replace("s3cr3t", "[redacted]")
    assert not page.all("#markup"), "it is text, and no markup"
    assert "text/plain; version=0.0.4" in page.text("#target-page dl")
    page.picture(pictures / "target-page.png")
    page.button("#target-page", "Read it with what looks like a secret")
    page.wait(lambda: shown() == lines, "the whole page")
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.see("#target-page"), "the page closes")
    assert page.focus() == "Read its page"
    page.button(f"#targets tr[data-key='static {urls[1]}']", "Read its page")
    page.wait_text("#target-page dl", "nothing listens at this address and port")
    assert not page.see("#target-page pre")
    scene.weir.stop()
    target.close()


# What a row says, by the heads of its table.
CELLS = """
    const row = document.querySelector(arguments[0]);
    const heads = [...row.closest("table").querySelectorAll("thead th")].map((head) => head.textContent);
    return Object.fromEntries([...row.cells].map((cell, index) => [heads[index], cell.innerText]));
"""


def cells(page: Page, row: str) -> dict[str, str]:
    return page.driver.execute_script(CELLS, row)


def wait_cells(page: Page, row: str, wanted: dict[str, str], deadline_s: float = DEADLINE_S) -> None:
    page.wait(lambda: wanted.items() <= cells(page, row).items(), f"{wanted} in {row}", deadline_s)


# What is scraped stays as it is for so long that it can be looked at.
EVERY_20_S = {
    "apiVersion": "operator.kyma-project.io/v1beta1",
    "kind": "Telemetry",
    "metadata": {"name": "default"},
    "spec": {"metric": {"prometheus": {"collectionInterval": "20s"}}},
}
PENDING_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "cart-0", "namespace": "shop", "uid": "uid-of-cart", "annotations": {"prometheus.io/scrape": "true"}},
    "spec": {"containers": [{"name": "cart"}]},
    "status": {"phase": "Pending"},
}


def test_targets_say_how_they_are_scraped_or_why_not(page: Page, lab: Lab, binary: Path, pictures: Path) -> None:
    # Each page has series of its own, so that the figures of all scrapes are the same.
    pages = text(*(f"a{number:03} 1\nb{number:03} 2\n" for number in range(1000)))
    target, sink = Target("shop", pages), Sick(lab, binary)
    up, down = f"http://{target.address}/metrics", f"{NOWHERE}/metrics"
    documents = [scraping("shop", f"http://{sink.grpc}", up, down), EVERY_20_S, PENDING_POD]
    scene = Scene(lab, binary, sink=sink, documents=documents)
    page.open(scene.weir.admin, "targets")
    wait_cells(page, "#targets tr[data-key^='app-pods ']", {"Target": "pod shop/cart-0", "Job": "app-pods", "Why": "the pod is Pending"})
    row = f"#targets tr[data-key='static {up}']"
    figures = {"Page": "14 B", "Samples": "2", "Series added": "2", "Lost": "0"}
    wait_cells(page, row, {"Target": f"{up}\nstatic", "State": "up", "Pipelines": "metrics/shop", **figures})
    shown = cells(page, row)
    assert all(re.fullmatch(r"[\d.]+ (µs|ms|s)", shown[head]) for head in ("Ago", "Took")), shown
    page.wait_text(f"#targets tr[data-key='static {down}']", "nothing listens")
    page.wait_text("#targets", "2 targets are scraped, 1 of them down; 1 more are not.")
    page.picture(pictures / "targets.png")
    scene.weir.stop()
    target.close()


# All lines are as long as each other, and so is all that is no gzip.
LOG_LINES = [f"2026-01-01T00:00:00.000000000Z stdout F line {number}\n" for number in range(3)]
DAMAGED = [f"no gzip, {number}" for number in range(10)]
HOURS = 5


def write_stuck_files(container: Path) -> list[Path]:
    """Files of a container that are some hours old. Each is tried for half a minute and given up; what is later waits."""
    container.mkdir(parents=True)
    files = [container / f"0.log.20261123-11{minute:02}00.gz" for minute in range(len(DAMAGED))]
    ago = time.time() - HOURS * 3600
    for file, content in zip(files, DAMAGED, strict=True):
        file.write_text(content)
        os.utime(file, (ago, ago))
    return files


def test_log_files_say_how_far_they_are_read(page: Page, lab: Lab, binary: Path, tmp_path: Path, pictures: Path) -> None:
    pods, sink = tmp_path / "pods", Sick(lab, binary)
    write_log_files(pods, 1, 1)
    [read] = pods.glob("*/*/0.log")
    stuck = write_stuck_files(pods / "shop_cart_11111111-0000-4000-8000-000000000000" / "app")
    live, old = stuck[0].with_name("0.log"), stuck[0].with_name("0.log.20261123-120000")
    old.write_text(LOG_LINES[0])
    live.write_text(LOG_LINES[1])
    document = pipeline("logs", "shop", f"http://{sink.grpc}")
    document["spec"]["input"] = {"runtime": {"enabled": True}}
    scene = Scene(lab, binary, "--pod-logs", str(pods), sink=sink, documents=[document])
    page.open(scene.weir.admin, "logs")
    row, behind = "#logs tr[data-key^='shop/cart/']", len("".join(DAMAGED + LOG_LINES[:2]))
    reads = {"Behind": f"{behind} B", "Behind for": f"{HOURS} h", "Reads": f"{stuck[0].name}\ninode {stuck[0].stat().st_ino}"}
    wait_cells(page, row, {"Pod": "cart", "Namespace": "shop", "Container": "app", "Files": "12", "Rotated": "0", "Removed, held": "", **reads})
    reads = {"Behind": "0 B", "Behind for": "0 s", "Reads": f"0.log\ninode {read.stat().st_ino}", "Records read": "1"}
    wait_cells(page, "#logs tr[data-key^='shop/pod-0/']", {"Pod": "pod-0", "Files": "1", "Lost": "", "Waits for": "", **reads})
    live.rename(live.with_name("0.log.20261123-130000"))
    live.write_text(LOG_LINES[2])
    old.unlink()
    line = len(LOG_LINES[0])
    removed = {"Behind": f"{behind + line} B", "Files": "13", "Rotated": "1", "Removed, held": f"{line} B"}
    wait_cells(page, row, removed)
    wait_cells(page, row, {"Lost": f"{len(DAMAGED[0])} B"}, 2 * DEADLINE_S)
    page.wait(lambda: re.fullmatch(r"for \d+ (s|min), .*cannot be read: .+", cells(page, row)["Waits for"]), "what it waits for")
    page.wait_text("#logs", "1 container is stuck.")
    page.picture(pictures / "logs.png")
    scene.weir.stop()


def test_the_first_rows_of_log_files_wait_for_no_others(page: Page, lab: Lab, binary: Path, tmp_path: Path) -> None:
    pods, sink, others, first = tmp_path / "pods", Sick(lab, binary), 60, 40
    write_log_files(pods, 1, others)
    # The last one by its name. Without an end it is seen, and not read: so it is the furthest behind.
    late = pods / "shop_till_11111111-0000-4000-8000-000000000000" / "app"
    late.mkdir(parents=True)
    (late / "0.log").write_text("2026-01-01T00:00:00.000000000Z stdout F half of a line")
    document = pipeline("logs", "shop", f"http://{sink.grpc}")
    document["spec"]["input"] = {"runtime": {"enabled": True}}
    scene = Scene(lab, binary, "--pod-logs", str(pods), sink=sink, documents=[document])
    read = lambda: requests.get(f"http://{scene.weir.admin}/logs", timeout=60).json()
    behind = lambda rows: [row["pod"] for row in rows if row["bytes_behind"]]
    scene.weir.process.wait_for(lambda: len(read()) == others + 1 and behind(read()) == ["till"], "has read the others")
    bar, head = "#logs .bar", "#logs tbody tr:first-child"
    with page.unanswered(f"*/logs?first={2**53 - 1}"):
        page.open(scene.weir.admin, "logs")
        page.wait_text(bar, f"the first {first} of {others + 1} rows")
        page.wait_text("#age", "Log files: ")
        assert len(page.all("#logs tr[data-key]")) == first and page.text(head).startswith("till")
        assert page.text("#logs > p").startswith(f"{others + 1} containers with {others + 1} files")
        page.press("/")
        page.press(f"container-{others - 1}")
        page.wait_text(bar, f"0 of the first {first} of {others + 1} rows")
    page.wait_text(bar, f"1 of {others + 1} rows")
    page.press(Keys.ARROW_DOWN)
    assert page.focus().endswith(f"/container-{others - 1}"), "what came later is found, too"
    page.press("/")
    page.press(Keys.BACKSPACE)
    page.wait(lambda: len(page.all("#logs tr[data-key]")) == others + 1 and page.text(head).startswith("till"), "all, in the same order")
    page.button("#logs thead", "Container")
    page.button("#logs thead", "Container")
    page.wait(lambda: cells(page, head)["Container"] == "container-9", "all are sorted")
    scene.weir.stop()


def test_an_idle_process_says_that_nothing_was_lost(page: Page, idle: Scene, pictures: Path) -> None:
    page.open(idle.weir.admin, "losses")
    page.wait_text("#losses", "Nothing was lost")
    page.go("books")
    page.wait_text("#books", "Every item is accounted for")
    page.go("pipelines")
    page.wait(lambda: len(page.all(ROWS)) == 2, "two pipelines")
    page.picture(pictures / "idle.png")


def test_losses_tell_of_requests_that_were_refused(page: Page, idle: Scene) -> None:
    refused = requests.post(f"http://{idle.weir.http}/v1/traces", data="{", headers={"Content-Type": "application/json"}, timeout=60)
    assert refused.status_code == 400
    page.open(idle.weir.admin, "losses")
    page.wait_text("#losses-refused", "malformed 1")
    assert "Nothing was lost" in page.text("#losses"), "that is told of what was taken"


def test_what_was_lost_before_the_books_is_said(page: Page, lab: Lab, binary: Path, tmp_path: Path, pictures: Path) -> None:
    pods, sink = tmp_path / "pods", Sick(lab, binary)
    write_log_files(pods, 1, 1)
    [file] = pods.glob("*/*/0.log")
    # Without an end it is seen, and not read.
    half = "2026-01-01T00:00:00.000000000Z stdout F half of a line"
    file.write_text(half)
    document = pipeline("logs", "shop", f"http://{sink.grpc}")
    document["spec"]["input"] = {"runtime": {"enabled": True}}
    flags = ("--pod-logs", str(pods), "--data-dir", str(tmp_path / "data"))
    first = Scene(lab, binary, *flags, sink=sink, documents=[document])
    read = lambda: requests.get(f"http://{first.weir.admin}/logs", timeout=60).json()
    first.weir.process.wait_for(lambda: any(of["bytes_behind"] == len(half) for of in read()), "sees the half of a line")
    first.weir.stop()
    file.unlink()
    scene = Scene(lab, binary, *flags, sink=sink, documents=[document])
    page.open(scene.weir.admin, "losses")
    page.wait_text("#losses-before tr[data-key^='container_logs']", f"{len(half)} B")
    page.wait(lambda: page.text("#losses-before tr[data-key^='container_logs'] td:nth-child(4)") == "0 B", "it grows no more")
    losses = page.text("#losses")
    assert "files were deleted before they were read" in losses
    assert "Nothing was lost" not in losses and "Nothing that came into the books was lost" in losses
    lost = f"lost before it came into any books: {len(half)} B of container logs;"
    page.wait_text("#summary", f"1 pipeline, all healthy by their books; {lost}")
    page.picture(pictures / "before-books.png")
    scene.weir.stop()


# The heads of each table of a view.
HEADS = """
    const heads = (table) => [...table.querySelectorAll("thead th")].map((head) => head.textContent);
    return [...document.querySelectorAll(`#${arguments[0]} table`)].map(heads);
"""
# A text of each view of lists once it is filled, of a busy process.
SHOWN = {
    "pipelines": "traces/shop",
    "destinations": "traces/shop",
    "books": "traces/shop",
    "losses": "traces/shop",
    "targets": "0 targets are scraped",
    "logs": "0 containers",
    "talkers": "cart-1",
    "attributes": "service.name",
    "memory": "The budget is",
    "configuration": "started",
}


@pytest.mark.parametrize("view", SHOWN)
def test_every_list_is_there(page: Page, busy: Scene, view: str) -> None:
    page.open(busy.weir.admin, view)
    page.wait_text(f"#{view}", SHOWN[view])
    tables = page.driver.execute_script(HEADS, view)
    assert tables and all(len(set(heads)) == len(heads) for heads in tables), f"each column has a name of its own: {tables}"


def test_keys_lead_through_rows_and_views(page: Page, busy: Scene) -> None:
    page.open(busy.weir.admin)
    page.wait(lambda: len(page.all(ROWS)) == 2, "two pipelines")
    page.press("/")
    page.press("logs")
    page.wait(lambda: len(page.all(ROWS)) == 1, "the filter finds one")
    page.press(Keys.ARROW_DOWN)
    assert page.focus() == "logs/shop"
    page.press(Keys.ENTER)
    page.wait_text("#detail", "logs/shop: healthy")
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.see("#detail"), "the detail closes")
    page.click("#tab-pipelines")
    page.press(Keys.ARROW_RIGHT)
    page.wait(lambda: page.see("#destinations"), "the next view")
    assert page.focus() == "tab-destinations"
    page.press(Keys.ARROW_LEFT)
    page.press(Keys.ARROW_LEFT)
    page.wait(lambda: page.see("#configuration"), "the last view")


def test_a_table_is_sorted_by_its_heads(page: Page, busy: Scene) -> None:
    page.open(busy.weir.admin, "books")
    first = "#books tbody tr:first-child"
    page.wait(lambda: len(page.all("#books tr[data-key]")) == 2, "the books")
    page.button("#books thead", "Pipeline")
    page.wait(lambda: page.text(first).startswith("logs/shop"), "from a to z")
    page.button("#books thead", "Pipeline")
    page.wait(lambda: page.text(first).startswith("traces/shop"), "from z to a")
    assert page.one("#books th[aria-sort]").get_attribute("aria-sort") == "descending"


# The numbers of a table, of its rows and of its last one, as they are at one moment.
NUMBERS = """
    const numbers = (row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.textContent.replaceAll(",", "")));
    return ["tbody", "tfoot"].map((part) => [...document.querySelectorAll(`${arguments[0]} ${part} tr`)].map(numbers));
"""


def test_books_have_a_total_of_the_process(page: Page, busy: Scene, pictures: Path) -> None:
    page.open(busy.weir.admin, "books")
    page.wait(lambda: page.text("#books tr[data-key='logs/shop'] td") not in ("", "0"), "the books")
    rows, [total] = page.driver.execute_script(NUMBERS, "#books")
    assert total == [sum(column) for column in zip(*rows, strict=True)]
    assert total[0] > 0 and total[-1] == 0, f"the difference is last: {total}"
    page.button("#books thead", "Pipeline")
    page.write("#books input[type=search]", "logs/")
    page.wait(lambda: len(page.all("#books tr[data-key]")) == 1, "one is found")
    last = "#books tr:last-child"
    assert page.texts(last)[-1].startswith("This process"), "it is last, and of all pipelines"
    rows, [total] = page.driver.execute_script(NUMBERS, "#books")
    assert total[0] > rows[0][0]
    page.picture(pictures / "books.png")


# What has no name for a screen reader; and buttons of rows whose name is not what is written on them and which row it is.
NAMELESS = """
    const has = (one) => one.ariaLabel || one.labels?.length || one.textContent.trim() || one.title;
    const row = (one) => one.closest("tr").querySelector("th").firstChild.textContent;
    const isOfRow = (one) => one.ariaLabel?.startsWith(one.textContent) && one.ariaLabel.includes(row(one));
    const all = (css) => [...document.querySelectorAll(css)];
    return [...all("button, input, select, textarea, progress").filter((one) => !has(one)),
      ...all("tr[data-key] button").filter((one) => !isOfRow(one))].map((one) => one.outerHTML);
"""


def nameless(page: Page) -> list[str]:
    return page.driver.execute_script(NAMELESS)


def test_everything_has_a_name_for_a_screen_reader(page: Page, busy: Scene, sick: Scene) -> None:
    page.open(busy.weir.admin)
    page.wait(lambda: len(page.all(ROWS)) == 2, "two pipelines")
    page.click("#pipelines tr[data-key='traces/shop']")
    page.wait_text("#detail", "Try other rules")
    assert nameless(page) == []
    views = page.driver.execute_script("return [...document.querySelectorAll('[role=tab]')].map((tab) => tab.getAttribute('aria-controls'))")
    assert set(SHOWN) < set(views)
    for view in views:
        page.go(view)
        page.wait_text(f"#{view}", SHOWN.get(view, ""))
        assert nameless(page) == [], view
        assert page.one(f"#{view}").get_attribute("role") == "tabpanel"
    assert page.all("#losses tr[data-key] button"), "there are buttons of rows"
    page.go("rules")
    page.choose("#rules-pipeline", "traces/shop")
    page.wait(lambda: page.all("#rules-editor textarea"), "the editor")
    assert nameless(page) == []
    remove = [one.accessible_name for one in page.all("#rules-editor [data-act=remove]")]
    assert remove == ["Remove transform[0]", "Remove filter[0]"]
    page.go("tap")
    page.button("#tap-form", "Open tap")
    page.wait(lambda: page.all("#tap-items > li"), "items")
    page.click("#tap-items > li summary")
    page.wait(lambda: page.all("#tap-items [data-act=copy]"), "an item unfolds")
    assert nameless(page) == []
    page.button("#tap-bar", "Stop")
    assert len(page.all("table > caption")) == len(page.all("table")) > 5
    page.open(sick.weir.admin, "losses")
    page.wait(lambda: page.all("#losses tr[data-key] [data-act=copy]"), "samples")
    assert nameless(page) == []


# Texts whose contrast to what is behind them is below 4.5, which WCAG 2.2 asks for (1.4.3), each once.
PALE = """
    const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((of) => of / 255).map((of) => (of <= 0.04045 ? of / 12.92 : ((of + 0.055) / 1.055) ** 2.4))
      .reduce((all, of, index) => all + of * [0.2126, 0.7152, 0.0722][index], 0);
    const ground = (one) => {
      const [r, g, b, a = 1] = parse(getComputedStyle(one).backgroundColor);
      return a > 0.5 ? [r, g, b] : one.parentElement ? ground(one.parentElement) : [255, 255, 255];
    };
    const contrast = (one) => {
      const [high, low] = [light(parse(getComputedStyle(one).color)), light(ground(one))].sort((a, b) => b - a);
      return (high + 0.05) / (low + 0.05);
    };
    const shows = (one) => one.checkVisibility() && !one.disabled && !one.closest("svg") && [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    return [...new Set([...document.querySelectorAll("body *")].filter(shows).filter((one) => contrast(one) < 4.5)
      .map((one) => `${one.tagName}.${one.className} ${getComputedStyle(one).color} on ${ground(one)}: ${contrast(one).toFixed(1)}`))];
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_texts_can_be_read_in_light_and_dark(page: Page, busy: Scene, sick: Scene, pictures: Path, scheme: str) -> None:
    page.scheme(scheme)
    try:
        for name, scene in (("busy", busy), ("sick", sick)):
            page.open(scene.weir.admin)
            page.wait(lambda: len(page.all(ROWS)) == 2, "two pipelines")
            for tab in page.driver.execute_script("return [...document.querySelectorAll('[role=tab]')].map((tab) => tab.id)"):
                page.go(tab.removeprefix("tab-"))
                assert page.driver.execute_script(PALE) == [], f"{tab} of the {name} one"
                page.picture(pictures / f"{scheme}-{name}-{tab}.png")
    finally:
        page.scheme(None)
