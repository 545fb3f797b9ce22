"""The board in headless Chromium: sorts, filters, compares, takes and refuses submissions; with 1,000 runs too."""

import csv
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.board_runs import make_run, packed, variant
from helpers.commands import h2htalk
from helpers.launch import free_port

from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.leaderboard.submission import pack, read_run

pytest.importorskip("gradio", reason="gradio is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.slow

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"
SHOTS = os.environ.get("H2HTALK_SCREENSHOTS")  # a folder, to look at the pages


@contextmanager
def served(folder: Path):
    """The board of a folder, served by its command on a free port."""
    port = free_port()
    call = "from h2htalk_metric.cli.main import main; main()"
    command = [sys.executable, "-c", call, "leaderboard", "--port", port, "--storage", str(folder)]
    with subprocess.Popen([*command, "--allow-partial"], stdout=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}/"
            deadline = time.monotonic() + 300
            while not _answers(url):
                assert process.poll() is None and time.monotonic() < deadline, "the board did not start"
                time.sleep(0.25)
            yield url
        finally:
            process.kill()  # it would wait for pages that are still open


def _answers(url):
    try:
        return b"H2HTalk leaderboard" in urllib.request.urlopen(url, timeout=20).read()
    except OSError:
        return False


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
    return json.loads(read_run(run, "1-8B").model_dump_json())


@pytest.fixture
def page(browser):
    """A page without cache that fails on any script error or dialog."""
    opened = browser.new_context(viewport={"width": 1400, "height": 900}, accept_downloads=True).new_page()
    opened.set_default_timeout(60_000)
    troubles = []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
    yield opened
    opened.context.close()
    assert troubles == []


def models(page, table="runs-table"):
    return page.locator(f"#{table} tbody tr:not(.bracket) th").locator("a, span:not(.claimed)").all_inner_texts()


def shot(page, name):
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def test_board_in_a_browser(page, tree, tmp_path):
    board = Storage(tmp_path / "board", allow_partial=True)
    for number, bracket in enumerate(["1-8B", "1-8B", "32B+"]):
        whole = json.loads(json.dumps(tree)) | {"bracket": bracket}
        board.submit(variant(whole, number, words=1 + 8 * number))
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
    assert page.evaluate("document.activeElement.textContent") == "Model▲"  # the head is new, the focus is kept
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
    for name in ("Model-0000", "Model-0002"):
        box.click()
        page.get_by_role("option", name=name).click()
        page.locator("#runs-radar svg .name", has_text=name).wait_for()
    assert page.locator("#runs-radar svg [fill-opacity]").count() == 2
    assert "Overall against Model-0000" in page.locator("#runs-radar").inner_text()
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
    assert "SS is claimed" in text and "as submitted: embedder:hashed-words" in text and "a partial run" in text
    page.locator("summary", has_text="DialogueBase").click()
    assert page.locator("details[open] pre").count() == 2 * 3  # two answers, each with its prompt and reference
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
    assert 0 <= model["x"] < 60 and model["width"] < 160  # stays in sight beside the figures
    shot(page, "phone")


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with served(tmp_path / "one") as url:
        port = url.rstrip("/").rpartition(":")[2]
        refused = h2htalk("leaderboard", "--port", port, "--storage", tmp_path / "two")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert "error: the board can't be served" in refused.stderr and "name another --port" in refused.stderr


def test_uploads_are_deleted_after_a_day(tmp_path):
    from h2htalk_metric.leaderboard.page import build_app

    assert build_app(Storage(tmp_path)).delete_cache == (3600, 86_400)  # checked hourly, in seconds


def test_a_partial_run_of_one_config_is_compared_by_its_radar(page, tmp_path):
    board = Storage(tmp_path / "board", allow_partial=True)
    for name in ("one", "two"):
        run = make_run(tmp_path / name, f"org/{name}", limit=2, tasks="DialogueBase", seed=len(board.rows()))
        board.submit(pack(read_run(run, "1-8B")))
    with served(tmp_path / "board") as url:
        page.goto(url)
        page.wait_for_selector("#runs-table tbody tr td")
        box = page.locator("#runs-compare input").first
        for name in ("one", "two"):
            box.click()
            page.get_by_role("option", name=name).click()
            page.locator("#runs-radar svg .name", has_text=name).wait_for()
        assert "Overall against" not in page.locator("#runs-radar").inner_text()


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
