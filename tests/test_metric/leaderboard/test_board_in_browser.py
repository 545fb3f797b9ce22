"""The board in headless Chromium: sort, filter, compare, accepted and refused submissions; also with 1,000 runs."""

import csv
import json
import os
import shutil
from pathlib import Path

import pytest
from helpers.board_runs import make_run, packed, variant
from helpers.board_server import served
from helpers.commands import h2htalk

from h2htalk_metric.leaderboard.from_run import make_submission
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.leaderboard.submission import pack

pytest.importorskip("gradio", reason="gradio is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.slow

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"
SHOTS = os.environ.get("H2HTALK_SCREENSHOTS")  # a folder for screenshots


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("the Debian package chromium is not installed")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> dict:
    run = make_run(tmp_path_factory.mktemp("runs") / "one", "org/Small-1B", limit=2)
    return json.loads(make_submission(run, "1-8B").model_dump_json())


@pytest.fixture
def page(browser):
    """A page without cache; the test fails on any script error or dialog."""
    opened = browser.new_context(viewport={"width": 1400, "height": 900}, accept_downloads=True).new_page()
    opened.set_default_timeout(60_000)
    errors = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("dialog", lambda dialog: (errors.append(dialog.message), dialog.dismiss()))
    yield opened
    opened.context.close()
    assert errors == []


def models(page, table="runs-table"):
    return page.locator(f"#{table} tbody tr:not(.bracket) th").locator("a, span:not(.claimed)").all_inner_texts()


def shot(page, name):
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def test_board_in_a_browser(page, tree, tmp_path):
    board = Storage(tmp_path / "board", allow_partial=True)
    for number, bracket in enumerate(["1-8B", "1-8B", "32B+"]):
        board.submit(variant(tree | {"bracket": bracket}, number, words=1 + 8 * number))
    with served(tmp_path / "board") as url:
        page.goto(url)
        page.wait_for_selector("#runs-table tbody tr td")
        _sorts_and_filters(page)
        _compares(page)
        _papers_board(page)
        _submits(page, tree, tmp_path)
        _opens_a_run(page, url)
        _fits_a_phone(page, url)


def _sorts_and_filters(page):
    assert models(page) == ["Model-0000", "Model-0001", "Model-0002"]  # by bracket, then Overall
    page.locator("#runs-table thead button", has_text="Model").click()
    assert page.evaluate("document.activeElement.textContent") == "Model▲"  # the head is new and still has the focus
    page.keyboard.press("Enter")
    assert models(page) == ["Model-0001", "Model-0000", "Model-0002"]
    assert "SS by hashed-words, 22 records of 4,650 (partial)" in page.locator("#scored-with").inner_text()
    page.locator("#runs-table [data-part=grouped]").uncheck()
    assert models(page) == ["Model-0002", "Model-0001", "Model-0000"]
    page.locator("#runs-table thead button", has_text="Overall").click()
    assert models(page) == ["Model-0000", "Model-0001", "Model-0002"]
    assert page.locator("#runs-table th[aria-sort=descending]").inner_text().startswith("Overall")
    first = page.locator("#runs-table tbody tr").first.locator("td.overall")
    assert "best-1" in first.get_attribute("class") and "¹" in first.inner_text()
    page.locator("#runs-table [data-part=search]").fill("0002")
    assert models(page) == ["Model-0002"]
    page.locator("#runs-table [data-part=search]").fill("")
    page.locator("#runs-table [data-part=bracket]").select_option("1-8B")
    assert models(page) == ["Model-0000", "Model-0001"]
    page.locator("#runs-table [data-part=bracket]").select_option("")
    page.locator("#runs-table summary").click()
    page.locator("#runs-table label", has_text="DialogueEmotion").click()
    assert page.locator("#runs-table thead button", has_text="Emotion").count() == 0
    page.locator("#runs-table label", has_text="DialogueEmotion").click()
    page.locator("#runs-table summary").click()
    assert page.locator("#runs-table td small").count() == 0
    page.locator("#runs-table [data-part=intervals]").check()
    assert page.locator("#runs-table td small").count() == 3 * 15
    shot(page, "intervals")


def _compares(page):
    box = page.locator("#runs-compare input").first
    box.click()
    page.get_by_role("option", name="Model-0000").click()
    page.locator("#runs-radar svg .outline").wait_for()
    assert page.locator("#runs-radar svg .outline").evaluate("line => getComputedStyle(line).fill") == "none"
    box.click()
    page.get_by_role("option", name="Model-0002").click()
    page.locator("#runs-radar svg .name", has_text="Model-0002").wait_for()
    assert page.locator("#runs-radar svg [fill-opacity]").count() == 2
    text = page.locator("#runs-radar").inner_text()
    assert "Overall minus that of Model-0000, with the paired 95% interval, clustered by relationship" in text
    page.keyboard.press("Escape")
    shot(page, "compare")


def _papers_board(page):
    page.get_by_role("tab", name="The paper").click()
    page.wait_for_selector("#paper-table tbody tr td")
    names = models(page, "paper-table")
    assert len(names) == 38 and not any(name.startswith("Model-") for name in names)
    claude = page.locator("#paper-table tbody tr", has_text="Claude-3.7").locator("td").all_inner_texts()
    assert [text for text in claude if text] == ["58.72", "53.39"]
    shot(page, "paper")
    with page.expect_download() as download:
        page.locator("#paper-csv").click()
    lines = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert len(lines) == 38 and lines[0]["model"] == "DeepSeek-V2.5"


def _submits(page, tree, tmp_path):
    page.get_by_role("tab", name="Submit").click()
    bad, good = tmp_path / "bad.json.gz", tmp_path / "good.json.gz"
    bad.write_bytes(packed(tree | {"answers": tree["answers"][:-1], "model": EVIL}))
    good.write_bytes(packed(tree, model=EVIL))
    _sends(page, bad)
    refused = page.locator("#verdict .refused")
    refused.wait_for()
    assert "Refused: answers are missing: ItineraryInitialization 1 of 2" in refused.inner_text()
    shot(page, "refused")
    page.reload()
    page.wait_for_selector("#runs-table tbody tr td")
    page.get_by_role("tab", name="Submit").click()
    _sends(page, good)
    accepted = page.locator("#verdict .accepted")
    accepted.wait_for()
    assert EVIL in accepted.inner_text()
    page.get_by_role("tab", name="Runs").click()
    page.locator("#runs-table tbody a", has_text="<script>").wait_for()
    assert EVIL in models(page)
    assert page.locator("#runs-table img, #runs-table script, #verdict img").count() == 0


def _sends(page, file):
    page.locator("#file input[type=file]").set_input_files(file)
    page.locator("#file", has_text=file.name.split(".")[0]).wait_for()
    page.wait_for_timeout(500)
    page.locator("#send").click()


def _opens_a_run(page, url):
    page.locator("#runs-table tbody a", has_text="<script>").click()
    page.wait_for_url("**/run?id=*")
    page.locator("h1", has_text="<script>").wait_for()
    text = page.locator("body").inner_text()
    assert "SS is claimed" in text and "embedder:hashed-words" in text and "a partial run" in text
    page.locator("summary", has_text="DialogueBase").click()
    assert page.locator("details[open] pre").count() == 2 * 3  # of each record prompt, answer and reference
    shot(page, "run")
    page.goto(f"{url}run?id=nothing")
    page.locator(".refused", has_text="no submission 'nothing'").wait_for()


def _fits_a_phone(page, url):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(url)
    page.wait_for_selector("#runs-table tbody tr td")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    table = page.locator("#runs-table .scroll")
    table.evaluate("box => box.scrollLeft = 300")
    model = page.locator("#runs-table tbody tr:not(.bracket) th").first.bounding_box()
    assert 0 <= model["x"] < 60 and model["width"] < 160  # stays visible next to the figures
    shot(page, "phone")


def test_a_port_in_use_is_one_line(tmp_path):
    with served(tmp_path / "one") as url:
        port = url.rstrip("/").rpartition(":")[2]
        refused = h2htalk("leaderboard", "--port", port, "--storage", tmp_path / "two")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert "error: the board cannot be served" in refused.stderr and "choose another --port" in refused.stderr


def test_partial_runs_of_one_config_can_be_chosen_to_compare(page, tmp_path):
    board = Storage(tmp_path / "board", allow_partial=True)
    for name in ("one", "two"):
        run = make_run(tmp_path / name, f"org/{name}", limit=2, tasks="DialogueBase", seed=len(board.rows()))
        board.submit(pack(make_submission(run, "1-8B")))
    with served(tmp_path / "board") as url:
        page.goto(url)
        page.wait_for_selector("#runs-table tbody tr td")
        box = page.locator("#runs-compare input").first
        for name in ("one", "two"):
            box.click()
            page.get_by_role("option", name=name).click()
            page.locator("#runs-radar", has_text="A radar needs at least three configs.").wait_for()
        assert "Overall minus" not in page.locator("#runs-radar").inner_text()


@pytest.mark.timeout(1200)
def test_a_thousand_runs_are_shown_and_sorted(browser, tree, tmp_path):
    board = Storage(tmp_path, allow_partial=True)
    for number in range(1000):
        bracket = ("1-8B", "8-31B", "32B+", "proprietary")[number % 4]
        board.submit(variant(tree | {"bracket": bracket}, number, words=1 + number % 7))
    with served(tmp_path) as url:
        page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        page.set_default_timeout(120_000)
        page.goto(url, wait_until="commit")
        page.wait_for_selector("#runs-table tbody tr td", state="attached")
        assert "1000 models" in page.locator("#runs-table [data-part=count]").inner_text()
        page.locator("#runs-table [data-part=grouped]").uncheck()
        page.locator("#runs-table thead button", has_text="Model").click()
        page.locator("#runs-table th[aria-sort]", has_text="Model").wait_for()
        assert models(page)[:2] == ["Model-0000", "Model-0001"]
        page.locator("#runs-table thead button", has_text="Model").click()
        assert models(page)[:2] == ["Model-0999", "Model-0998"]
