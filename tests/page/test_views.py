"""What the views of figures show, and how one goes through them with keys."""

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from browser import Page
from scenes import Scene, send_spans, span

ROWS = "#pipelines tr[data-key]"


def test_a_busy_process_shows_what_flows(page: Page, busy: Scene, pictures: Path) -> None:
    page.open(busy.weir.admin)
    page.wait_text("#summary", "2 pipelines, all healthy")
    row = "#pipelines tr[data-key='traces/shop']"
    page.wait(lambda: float(page.text(f"{row} td:nth-child(5)")) > 10, "spans a second")
    page.wait_text(f"{row} td:nth-child(3)", "removed")
    page.click(row)
    page.wait_text("#detail", "filter condition 1.1")
    page.picture(pictures / "busy.png")


def test_a_sick_process_shows_its_trouble_and_samples(page: Page, sick: Scene, pictures: Path) -> None:
    send_spans(sick.weir, span("ab" * 16, "/orders"))
    page.open(sick.weir.admin, "destinations")
    page.wait_text("#destinations tr[data-key='traces/shop']", "unreachable")
    page.go("losses")
    page.wait_text("#losses", "refused by the backend")
    answers = page.wait(lambda: page.texts("#losses tbody td:nth-child(3)"), "samples")
    assert any("400" in answer or "INVALID_ARGUMENT" in answer for answer in answers), answers
    page.picture(pictures / "sick.png")


def test_an_idle_process_says_that_nothing_was_lost(page: Page, idle: Scene, pictures: Path) -> None:
    page.open(idle.weir.admin, "losses")
    page.wait_text("#losses", "Nothing was lost")
    page.go("books")
    page.wait_text("#books", "Every item is accounted for")
    page.go("pipelines")
    page.wait(lambda: len(page.all(ROWS)) == 2, "two pipelines")
    page.picture(pictures / "idle.png")


@pytest.mark.parametrize("view", ["targets", "logs", "talkers", "memory", "configuration"])
def test_every_list_is_there(page: Page, busy: Scene, view: str) -> None:
    page.open(busy.weir.admin, view)
    expected = {
        "targets": "0 targets are scraped",
        "logs": "0 containers",
        "talkers": "cart-1",
        "memory": "The budget is",
        "configuration": "started",
    }
    page.wait_text(f"#{view}", expected[view])


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


def test_everything_has_a_name_for_a_screen_reader(page: Page, busy: Scene) -> None:
    page.open(busy.weir.admin)
    page.wait(lambda: len(page.all(ROWS)) == 2, "two pipelines")
    nameless = """
        const has = (one) => one.ariaLabel || one.labels?.length || one.textContent.trim() || one.title;
        return [...document.querySelectorAll("button, input, select, textarea, progress")].filter((one) => !has(one)).map((one) => one.outerHTML);
    """
    assert page.driver.execute_script(nameless) == []
    for view in page.driver.execute_script("return [...document.querySelectorAll('[role=tab]')].map((tab) => tab.getAttribute('aria-controls'))"):
        assert page.one(f"#{view}").get_attribute("role") == "tabpanel"
    assert len(page.all("table > caption")) == len(page.all("table")) > 5
