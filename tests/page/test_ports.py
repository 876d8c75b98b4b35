"""Which port shows what, and to whom."""

from pathlib import Path

from selenium.webdriver.common.keys import Keys

from browser import Page
from harness.process import Lab
from scenes import Scene


def test_the_port_of_the_metrics_says_where_samples_are(page: Page, idle: Scene) -> None:
    page.open(idle.weir.metrics_address)
    page.wait(lambda: page.all("#pipelines .list:not(#events) tr[data-key]"), "pipelines")
    for view in ("tap", "find", "rules", "talkers", "logs"):
        page.click(f"#tab-{view}")
        page.wait_text("#elsewhere", "kubectl port-forward")
        assert not page.see(f"#{view}")
    page.click("#tab-losses")
    page.wait_text("#losses", "on the admin port only")


def test_a_token_is_asked_for_and_kept_for_this_tab(page: Page, lab: Lab, binary: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token\n")
    tokens.chmod(0o600)
    scene = Scene(lab, binary, "--admin-token-file", str(tokens))
    page.open(scene.weir.admin)
    page.wait(lambda: page.see("#token"), "the question")
    page.write("#token-text", "not-the-token")
    page.press(Keys.ENTER)
    page.wait(lambda: page.see("#token-wrong"), "the question again")
    page.write("#token-text", "a-token")
    page.press(Keys.ENTER)
    page.wait(lambda: page.all("#pipelines .list:not(#events) tr[data-key]"), "pipelines")
    page.open(scene.weir.admin, "tap")
    page.wait_text("#summary", "2 pipelines")
    assert not page.see("#token")
    assert "a-token" not in page.driver.current_url
    scene.weir.stop()
