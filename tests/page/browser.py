"""A browser without a window, and the page in it as its reader uses it: by roles, labels and keys. Every wait has a deadline."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from selenium import webdriver
from selenium.common.exceptions import JavascriptException, NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

T = TypeVar("T")

DEADLINE_S = 90
LOADS = 3
POLL_S = 0.05
_ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1480,950")
# A row is made again when its figures change.
_PASSING = (NoSuchElementException, StaleElementReferenceException, JavascriptException)


def chromium() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


class Page:
    """What somebody sees who opens the address of a process."""

    def __init__(self, driver: webdriver.Chrome):
        self.driver = driver

    def open(self, address: str, view: str = "pipelines") -> None:
        # Chromium gives up whatever it loads when a network interface of the machine comes or goes.
        for _ in range(LOADS):
            # Only with a page in between is another view of the same address a page that is loaded.
            self.driver.get("about:blank")
            self.driver.get(f"http://{address}/#{view}")
            if self.all("#tabs button"):
                return
        raise AssertionError(f"the page of {address} does not begin: {self.driver.get_log('browser')}")

    def go(self, view: str) -> None:
        """Clicks on a tab."""
        self.click(f"#tab-{view}")
        self.wait(lambda: self.see(f"#{view}"), f"the view {view}")

    def wait(self, condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
        wait = WebDriverWait(self.driver, deadline_s, POLL_S, ignored_exceptions=_PASSING)
        return wait.until(lambda _: condition(), f"not within {deadline_s} s: {what}")

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def see(self, css: str) -> bool:
        return any(element.is_displayed() for element in self.all(css))

    def text(self, css: str) -> str:
        """What is shown at the first such place; nothing if there is none."""
        return self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def texts(self, css: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)"
        return self.driver.execute_script(script, css)

    def wait_text(self, css: str, part: str, deadline_s: float = DEADLINE_S) -> str:
        return self.wait(lambda: part in self.text(css) and self.text(css), f"{part!r} in {css}", deadline_s)

    def click(self, css: str) -> None:
        self.wait(lambda: self.one(css).click() or True, f"a click on {css}")

    def button(self, within: str, words: str) -> None:
        """Clicks on the button with these words."""

        def click() -> bool:
            button = next((one for one in self.all(f"{within} button") if one.text == words and one.is_displayed()), None)
            return button is not None and (button.click() or True)

        self.wait(click, f"a button {words!r} in {within}")

    def write(self, css: str, text: str) -> None:
        field = self.one(css)
        field.clear()
        field.send_keys(text)

    def choose(self, css: str, value: str) -> None:
        """Chooses from a list, once it is filled."""
        self.wait(lambda: Select(self.one(css)).select_by_value(value) or True, f"{value} in {css}")

    def press(self, *keys: str) -> None:
        """Presses keys wherever the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def strike(self, *keys: str) -> None:
        """The same, also in a drawing, which is no field to write to."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def point(self, css: str, across: float) -> None:
        """Moves the pointer over an element: 0 is its left edge, 1 its right one."""
        element = self.one(css)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver).move_to_element_with_offset(element, int((across - 0.5) * element.size["width"]), 0).perform()

    def focus(self) -> str:
        """What has the focus: its id, or the key of its row."""
        return self.driver.execute_script("const at = document.activeElement; return at.id || at.dataset.key || at.textContent")

    @contextmanager
    def unanswered(self, pattern: str) -> Iterator[None]:
        """Meanwhile, questions to such an address get no answer; `*` stands for anything."""
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": [pattern]})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
            self.driver.execute_cdp_cmd("Network.disable", {})

    def scheme(self, name: str | None) -> None:
        """Light or dark, as a reader's system says; `None` says nothing."""
        features = [{"name": "prefers-color-scheme", "value": name}] if name else []
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))

    def complaints(self) -> list[str]:
        """What the browser's console says is wrong, but for answers that are no 200: they are the process's own."""
        return [one["message"] for one in self.driver.get_log("browser") if one["level"] == "SEVERE" and one["source"] != "network"]
