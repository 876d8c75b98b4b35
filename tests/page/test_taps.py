"""A live tap, the way of one item, and rules that are tried on items."""

import json
import re
import secrets
from pathlib import Path
from threading import Thread

import requests
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from browser import Page
from harness.process import Lab
from scenes import FILTER, Scene, send_log, send_spans, span

LINES = "#tap-items > li"
SAVED = re.compile(r"Against no rules at all, these save about \d+ % of the items and .* the bytes, now [\d.,]+ of [\d.,]+ items and \S+ \w+ of \S+ \w+ a second\.")
MAY_BE_REFUSED = "a record that may be refused"


def open_tap(page: Page, scene: Scene, pipeline: str, edge: str = "in", text: str = "", where: str = "") -> None:
    page.open(scene.weir.admin, "tap")
    page.choose("#tap-pipeline", pipeline)
    page.choose("#tap-edge", edge)
    page.write("#tap-text", text)
    page.write("#tap-where", where)
    page.button("#tap-form", "Open tap")


def seen(page: Page) -> int:
    return len(page.all(LINES))


def taps_of(scene: Scene) -> list[dict[str, object]]:
    return [tap for tap in requests.get(f"http://{scene.weir.admin}/api/taps", timeout=60).json()["taps"] if tap["state"] == "open"]


def test_items_appear_and_can_be_held_up(page: Page, busy: Scene, pictures: Path) -> None:
    open_tap(page, busy, "traces/shop")
    page.wait(lambda: seen(page) >= 3, "items")
    page.wait(lambda: any("GET /orders" in line and "12 ms" in line for line in page.texts(LINES)), "a line of a span")
    page.wait(lambda: any("delivered" in line for line in page.texts(LINES)), "an item that is delivered")
    assert "matched" in page.text("#tap-counts")
    page.button("#tap-bar", "Pause")
    held = seen(page)
    page.wait_text("#tap-counts", "came since the pause")
    assert seen(page) == held
    page.click(f"{LINES} summary")
    page.picture(pictures / "tap.png")
    page.button("#tap-bar", "Clear")
    assert seen(page) == 0
    page.button("#tap-bar", "Go on")
    page.wait(lambda: seen(page) > 0, "items again")
    page.button("#tap-bar", "Stop")
    page.wait_text("#tap-state", "ended")
    page.wait(lambda: not taps_of(busy), "no tap is left")


def test_the_way_of_an_item_is_kept_up_to_date(page: Page, lab: Lab, binary: Path) -> None:
    scene = Scene(lab, binary, "--no-data-dir")
    scene.sink.refuse("503:100")
    open_tap(page, scene, "traces/shop")
    page.wait_text("#tap-state", "open")
    # The client may have to wait for its answer as long as the backend takes nothing.
    client = Thread(target=send_spans, args=(scene.weir, span("cd" * 16, "/orders")), daemon=True)
    client.start()
    page.wait_text(LINES, "pending")
    scene.sink.refuse()
    page.wait_text(LINES, "delivered")
    client.join(10)
    scene.weir.stop()


# Whether it is said that something was copied, which is gone after a second and a half.
SAYS_COPIED = """
    const lines = document.querySelector("#tap-items");
    const look = () => { window.hasSaidCopied ||= lines.textContent.includes("Copied"); };
    window.hasSaidCopied = false;
    new MutationObserver(look).observe(lines, { childList: true, subtree: true });
"""


def test_an_item_unfolds_and_is_copied_as_a_sample(page: Page, busy: Scene) -> None:
    grant = {"permissions": ["clipboardReadWrite"], "origin": f"http://{busy.weir.admin}"}
    page.driver.execute_cdp_cmd("Browser.grantPermissions", grant)
    open_tap(page, busy, "logs/shop")
    page.wait(lambda: seen(page) >= 1, "items")
    page.button("#tap-bar", "Stop")
    assert "ERROR" in page.text(LINES) and "of <b>somebody</b>" in page.text(LINES), "what others wrote is text"
    page.click(f"{LINES} summary")
    page.wait_text(LINES, 'k8s.namespace.name: "shop"')
    page.driver.execute_script(SAYS_COPIED)
    page.button(LINES, "Copy as a sample for weir try")
    page.wait(lambda: page.driver.execute_script("return window.hasSaidCopied"), "that it was copied")
    sample = json.loads(page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])"))
    assert sample["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["severityText"] == "ERROR"


def test_only_what_fits_a_text_or_a_condition_is_shown(page: Page, busy: Scene) -> None:
    open_tap(page, busy, "traces/shop", text="/cart")
    page.wait(lambda: seen(page) >= 2, "items")
    assert all("GET /cart" in line for line in page.texts(LINES))
    open_tap(page, busy, "traces/shop", where='span.attributes["url.path"] == "/orders"')
    # Those of the tap before are there until it has ended.
    are = lambda lines: len(lines) >= 2 and all("GET /orders" in line for line in lines)
    page.wait(lambda: are(page.texts(LINES)), "other items, and no others")
    open_tap(page, busy, "traces/shop", where="nothing.like_that")
    page.wait_text("#tap-trouble", "nothing")
    assert not page.see("#tap-bar")


def test_other_edges_ask_for_what_they_need(page: Page, busy: Scene) -> None:
    open_tap(page, busy, "traces/shop", "received")
    page.wait(lambda: seen(page) >= 2, "items")
    assert page.one("#tap-pipeline").get_attribute("value") == "traces/*" and not page.see("#tap-rule")
    assert all("received" in line for line in page.texts(LINES))
    page.choose("#tap-pipeline", "traces/shop")
    page.choose("#tap-edge", "after")
    page.write("#tap-rule", "transform[0]")
    page.button("#tap-form", "Open tap")
    page.wait(lambda: any("removed by" in line for line in page.texts(LINES)), "an item that the filter removes after that")
    page.write("#tap-rule", "transform[7]")
    page.button("#tap-form", "Open tap")
    page.wait_text("#tap-trouble", "traces/shop has no transform[7]")


def test_what_rules_remove_is_shown_with_the_rule(page: Page, busy: Scene) -> None:
    page.open(busy.weir.admin, "losses")
    page.button("#losses tr[data-key='traces/shop']", "Tap what rules remove")
    page.wait(lambda: page.see("#tap"), "the tap")
    page.wait(lambda: seen(page) >= 2, "items")
    for line in page.texts(LINES):
        assert "GET /healthz" in line and f"removed by filter[0].conditions[0]: {FILTER}" in line.replace("\n", " ")


def test_what_rules_removed_is_there_afterwards(page: Page, busy: Scene, pictures: Path) -> None:
    page.open(busy.weir.admin, "losses")
    page.button("#losses tr[data-key='traces/shop']", "Recent items")
    page.wait(lambda: page.texts("#losses-recent li"), "items")
    lines = page.texts("#losses-recent li")
    assert 0 < len(lines) <= 5 and all("GET /healthz" in line and FILTER in line for line in lines), lines
    page.one("#losses-recent summary").click()
    page.wait_text("#losses-recent", "Copy as a sample for weir try")
    page.picture(pictures / "removed.png")
    page.button("#losses-recent", "Follow this trace")
    page.wait_text("#find-state", "Following")
    page.wait(lambda: len(taps_of(busy)) >= 3, "a tap at each edge")
    assert re.fullmatch("[0-9a-f]{32}", page.one("#find-text").get_attribute("value"))
    page.button("#find-form", "Stop")
    page.wait(lambda: not taps_of(busy), "no tap is left")
    page.open(busy.weir.metrics_address, "losses")
    page.button("#losses tr[data-key='traces/shop']", "Recent items")
    page.wait_text("#losses-recent", "admin port only")


def test_losses_lead_to_samples(page: Page, lab: Lab, binary: Path, pictures: Path) -> None:
    scene = Scene(lab, binary, "--no-data-dir")
    scene.sink.refuse("400:50")
    grant = {"permissions": ["clipboardReadWrite"], "origin": f"http://{scene.weir.admin}"}
    page.driver.execute_cdp_cmd("Browser.grantPermissions", grant)
    page.open(scene.weir.admin, "losses")
    row = "#losses tr[data-key^='logs/shop rejected']"
    page.wait(lambda: send_log(scene.weir, MAY_BE_REFUSED) or page.see(row), "a loss")
    page.wait_text(row, "last ")
    assert "refused by the backend" in page.text(row)
    now = f"{row} td:nth-child(5)"
    page.wait(lambda: send_log(scene.weir, MAY_BE_REFUSED) or re.search("[1-9]", page.text(now)), "losses a second")
    page.button("#losses", "Copy as a sample for weir try")
    script = "navigator.clipboard.readText().then(arguments[0])"
    copied = page.wait(lambda: MAY_BE_REFUSED in (text := page.driver.execute_async_script(script)) and text, "a sample")
    record = json.loads(copied)["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    assert record["body"] == {"stringValue": MAY_BE_REFUSED}
    page.picture(pictures / "losses.png")
    page.button(row, "Recent items")
    page.wait_text("#losses-recent", "those that the backend refused")
    page.button(row, "Tap what is refused")
    page.wait_text("#tap-state", "open")
    assert [page.one(f"#tap-{part}").get_attribute("value") for part in ("pipeline", "edge", "only")] == ["logs/shop", "out", "rejected"]
    page.wait(lambda: send_log(scene.weir, MAY_BE_REFUSED) or shown(page), "a record that is refused")
    assert all("refused by the backend" in line.text for line in shown(page))
    page.choose("#tap-only", "")
    page.wait(lambda: len(shown(page)) == seen(page), "all of them")
    scene.weir.stop()


def shown(page: Page) -> list[WebElement]:
    return [line for line in page.all(LINES) if line.is_displayed()]


def test_p_holds_up_a_tap(page: Page, busy: Scene) -> None:
    open_tap(page, busy, "traces/shop")
    page.wait_text("#tap-state", "open")
    page.click("#tap-counts")
    page.driver.execute_script("document.activeElement.blur()")
    page.press("p")
    page.wait_text("#tap-state", "paused")


def test_one_item_is_followed_by_its_trace_id(page: Page, busy: Scene) -> None:
    wanted, unwanted = secrets.token_hex(16), secrets.token_hex(16)
    page.open(busy.weir.admin, "find")
    page.write("#find-text", wanted)
    page.press(Keys.ENTER)
    page.wait_text("#find-state", "nothing with it has passed yet")
    send_spans(busy.weir, span(wanted, "/orders", 1), span(wanted, "/healthz", 2), span(unwanted, "/orders", 3))
    page.wait_text("#find-state", "2 items found in 1 pipeline")
    # Each edge has a tap of its own, and tells when it can.
    removed = f"removed by filter[0].conditions[0]: {FILTER}"
    for part in ("traces/shop", "arrived", "passed the rules", removed, "delivered"):
        ways = page.wait_text("#find-ways", part)
    assert re.search(r"\d\d:\d\d:\d\d\.\d{3} delivered", ways), f"when the backend took it: {ways}"
    assert unwanted not in ways
    page.button("#find-form", "Stop")
    page.wait(lambda: not taps_of(busy), "no tap is left")


def test_what_was_refused_before_is_found_by_its_text(page: Page, sick: Scene) -> None:
    send_log(sick.weir, "a record that nobody refuses")
    refused = page.wait(lambda: requests.get(f"http://{sick.weir.admin}/rejected", timeout=60).json(), "a refused sample")
    page.open(sick.weir.admin, "find")
    page.write("#find-text", "a record that may be refused")
    page.press(Keys.ENTER)
    page.wait_text("#find-ways", "logs/shop: refused by the backend before")
    page.wait_text("#find-ways", refused[0]["code"])


# An item may be of another day; one of today has its time alone.
MOMENTS = """
    const done = arguments[0];
    import("/dom.js").then(({ moment }) => done(["2001-02-03T12:00:00.250", new Date().setHours(12, 0, 0, 250)].map(moment)));
"""


def test_a_time_of_another_day_has_its_date(page: Page, idle: Scene) -> None:
    page.open(idle.weir.admin)
    assert page.driver.execute_async_script(MOMENTS) == ["2001-02-03 12:00:00.250", "12:00:00.250"]


def test_what_is_on_the_disk_since_before_the_start_is_found(page: Page, lab: Lab, binary: Path, tmp_path: Path) -> None:
    wanted, flags = secrets.token_hex(16), ("--data-dir", str(tmp_path / "data"), "--spill-after", "10ms")
    first = Scene(lab, binary, *flags)
    first.sink.refuse("503:100")
    send_spans(first.weir, span(wanted, "/orders"))
    first.weir.stop()
    scene = Scene(lab, binary, *flags, sink=first.sink)
    recent = f"http://{scene.weir.admin}/api/recent?pipeline=traces/shop"
    page.wait(lambda: requests.get(recent, timeout=60).json()["recovered"], "it is read to be sent")
    page.open(scene.weir.admin, "find")
    page.write("#find-text", wanted)
    page.press(Keys.ENTER)
    page.wait_text("#find-ways", "was written to the disk, before this process started")
    page.wait_text("#find-ways", "waits there for its backend")
    page.wait_text("#find-disk", "1 record")
    assert "1 item with it" in page.text("#find-disk")
    page.write("#find-text", secrets.token_hex(16))
    page.press(Keys.ENTER)
    page.wait_text("#find-disk", "0 items with it")
    page.button("#find-form", "Stop")
    scene.weir.stop()


def test_a_rule_is_tried_on_items_and_not_deployed(page: Page, busy: Scene) -> None:
    page.open(busy.weir.admin, "rules")
    page.choose("#rules-pipeline", "traces/shop")
    conditions = "#rules-editor [data-kind=filter] textarea"
    page.wait(lambda: FILTER in page.one(conditions).get_attribute("value"), "the rule as it is configured")
    page.write(conditions, 'span.name == "GET /cart"')
    page.button("#rules", "Preview")
    outcome = page.wait_text("#rules-result", "For Git")
    assert int(outcome.split(" items", 1)[0].split()[-1]) > 0, f"items that passed before: {outcome}"
    assert re.search(r"of which [1-9]\S* are changed", outcome), f"all have the attribute: {outcome}"
    page.wait(lambda: SAVED.fullmatch(page.text("#rules-saved")), "what the rules save at the present rate")
    page.button("#rules-form", "Collect items")
    page.wait(lambda: int(page.one("#rules-progress").get_attribute("value")) >= 10, "items that are collected")
    page.write(conditions, 'span.name == "GET /cart"')
    page.press(Keys.CONTROL, Keys.ENTER)
    outcome = page.wait_text("#rules-result", "For Git")
    assert "removed" in outcome and 'span.name == "GET /cart"' in outcome
    assert '+ resourceSpans.scopeSpans.spans.attributes["team"]: "shop"' in outcome, outcome
    page.write(conditions, "span.nam ==")
    page.button("#rules", "Preview")
    page.wait_text("#rules-trouble", "span.nam")
    page.button("#rules", "As configured")
    page.wait(lambda: page.one(conditions).get_attribute("value") == FILTER, "the rule as it is configured")
    now = requests.get(f"http://{busy.weir.admin}/api/configuration", timeout=60).json()
    assert [rule["text"] for rule in now["pipelines"][0]["rules"]][-1] == FILTER
