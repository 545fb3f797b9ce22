"""The review page in a real browser: two raters in two tabs, keys, a reload, a killed program, the export."""

import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pandas as pd
import pytest
from helpers.commands import h2htalk
from helpers.judge_scripts import make_run
from helpers.launch import free_port

from h2htalk_metric.review import Reviews

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium"),
]
pytest.importorskip("gradio")
playwright = pytest.importorskip("playwright.sync_api")
playwright.expect.set_options(timeout=60_000)  # a busy machine may stall

TRICK = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'> **bold** <b>b</b> {{value}} ${value}"
NAMES = ["well_paced", "true_to_persona", "grounded", "vivid", "keeps_form"]


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "secret-model-7b"
    make_run(folder, each=2, answer=lambda record, i: TRICK if i == 0 else f"Answer {i}.")
    return folder


@pytest.fixture
def serve(run):
    port = free_port()
    started = []

    def start():
        command = "from h2htalk_metric.cli.main import main; main()"
        arguments = ["review", run, "--sample", "4", "--seed", "1", "--port", port]
        started.append(subprocess.Popen([sys.executable, "-c", command, *map(str, arguments)], stdout=subprocess.PIPE))
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
                return started[-1], f"http://127.0.0.1:{port}/"
            except OSError:
                time.sleep(0.5)
        raise TimeoutError

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def browser():
    with playwright.sync_playwright() as tool:
        chromium = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def enter(page, url, name):
    page.goto(url)
    page.get_by_label("Your name").fill(name)
    page.keyboard.press("Enter")
    page.locator(".rubric").wait_for()


def marked(page, count):
    playwright.expect(page.locator(".count")).to_have_text(f"{count} of 4 marked")


def stored(run, rater, count):
    """Wait until an item of a rater is on disk with this number of marks."""
    reviews, deadline = Reviews(run), time.monotonic() + 60
    while not any(len(reviews.current(item, rater)[0]) == count for item in reviews.items):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def criteria(page):
    return [text[-1] for text in page.locator(".criteria button").all_inner_texts()]


def test_two_raters_a_reload_a_kill_and_the_export(run, serve, browser):
    process, url = serve()
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    fetched = []
    context.on("request", lambda request: fetched.append(request.url))
    ana, ben = context.new_page(), context.new_page()  # two tabs of one browser
    enter(ana, url, "Ana")
    enter(ben, url, "Ben")
    orders = {name: [] for name in ("Ana", "Ben")}
    seen = ""

    # Ana: by keys. Two marks, then the page is reloaded and shows them again.
    ana.keyboard.press("3")
    ana.keyboard.press("4")
    stored(run, "Ana", 2)
    ana.reload()
    ana.locator(".rubric").wait_for()
    assert criteria(ana) == ["3", "4", "–", "–", "–"]
    for key in ["9", "5", "ArrowUp", "ArrowUp", "1", "ArrowDown", "2", "0", "c"]:  # 9 is no level
        ana.keyboard.press(key)
    ana.keyboard.type("=a comment, 5")
    ana.keyboard.press("Enter")
    marked(ana, 1)
    for left in (2, 3, 4):
        seen += ana.locator(".desk").inner_text()
        for key in "44444":
            ana.keyboard.press(key)
        ana.keyboard.press("Enter")
        if left < 4:
            marked(ana, left)
    playwright.expect(ana.get_by_text("All marked. Thank you.")).to_be_visible()

    # Ben: by mouse; sees nothing of Ana; an item that lacks a mark is not saved.
    marked(ben, 0)
    assert criteria(ben) == ["–"] * 5
    ben.get_by_role("button", name="Save and go on").click()
    playwright.expect(ben.locator("aside .message")).to_have_text("Still without a mark: Well paced")
    for _ in range(5):
        ben.locator(".levels button").nth(2).click()
    ben.get_by_role("button", name="Save and go on").click()
    marked(ben, 1)
    ben.keyboard.press("5")
    stored(run, "Ben", 1)

    # The program is killed and started again; Ben continues where he was.
    process.send_signal(signal.SIGKILL)
    process.wait()
    ben.keyboard.press("1")
    playwright.expect(ben.locator("aside .message")).to_contain_text("can't reach its program")
    serve()
    ben.reload()
    ben.locator(".rubric").wait_for()
    marked(ben, 1)
    assert criteria(ben)[0] == "5"
    for left in (2, 3, 4):
        seen += ben.locator(".desk").inner_text()
        for key in "55555":
            ben.keyboard.press(key)
        ben.keyboard.press("Enter")
        if left < 4:
            marked(ben, left)
    playwright.expect(ben.get_by_text("All marked. Thank you.")).to_be_visible()

    # Ben goes back to his first item and corrects it: a second revision.
    ben.locator(".strip button").first.click()
    ben.locator(".rubric").wait_for()
    assert criteria(ben) == ["2"] * 5
    ben.keyboard.press("4")
    playwright.expect(ben.locator(".count")).to_have_text("4 of 4 marked, 1 changed, not saved")
    playwright.expect(ben.locator(".unsaved")).to_be_visible()
    assert ben.locator(".strip .changed").get_attribute("aria-label") == "Item 1, changed, not saved"
    ben.keyboard.press("ArrowUp")
    ben.keyboard.press("2")  # as it was
    marked(ben, 4)
    playwright.expect(ben.locator(".unsaved")).to_be_hidden()
    ben.keyboard.press("ArrowUp")
    ben.keyboard.press("4")
    ben.keyboard.press("Enter")
    playwright.expect(ben.get_by_text("All marked. Thank you.")).to_be_visible()

    assert "secret-model" not in seen + ana.content()
    assert all(ana.evaluate("window.owned === undefined") for ana in (ana, ben))
    assert all(address.startswith((url, "data:", "blob:")) for address in fetched)
    for page, name in ((ana, "Ana"), (ben, "Ben")):
        orders[name] = page.evaluate("sessionStorage.getItem('rater')")
    assert orders == {"Ana": "Ana", "Ben": "Ben"}
    _check_export(run)


def _check_export(run):
    exported = h2htalk("review", "export", run)
    assert exported.returncode == 0, exported.stderr
    rows = pd.read_csv(run / "reviews.csv", keep_default_na=False)
    assert len(rows) == 8
    assert set(rows["id"]) == set(Reviews(run).items)
    ana, ben = (rows[rows["rater"] == name] for name in ("Ana", "Ben"))
    first = ana[ana["comment"] != ""].iloc[0]
    assert first["comment"] == "'=a comment, 5"
    # 3, 4, then 5 for the third; up twice from the fourth: the second becomes 1; down from the third: 2, 0.
    assert [first[name] for name in NAMES] == [3, 1, 5, 2, 0]
    assert sorted(ana["revision"]) == [1, 1, 1, 1]
    assert sorted(ben["revision"]) == [1, 1, 1, 2]
    assert [ben[ben["revision"] == 2].iloc[0][name] for name in NAMES] == [4, 2, 2, 2, 2]


def test_what_is_pressed_while_the_next_item_comes_marks_neither(run, serve, browser):
    _, url = serve()
    page = browser.new_page()
    enter(page, url, "Dan")
    for key in "33333":
        page.keyboard.press(key)
    stored(run, "Dan", 5)
    calls = []
    page.route("**/component_server/", lambda call: call.continue_() if calls else calls.append(call))
    with page.expect_request("**/component_server/"):
        page.keyboard.press("Enter")
    page.keyboard.press("5")
    page.locator(".levels button").first.click()
    page.locator("textarea").fill("for the next one")
    page.get_by_role("button", name="Leave").click()
    calls[0].continue_()
    marked(page, 1)  # and none of them changed
    playwright.expect(page.locator(".strip .here")).to_have_attribute("aria-label", "Item 2")
    assert criteria(page) == ["–"] * 5
    assert page.locator("textarea").input_value() == "" and page.locator(".entry").count() == 0
    page.get_by_role("button", name="Leave").click()
    playwright.expect(page.get_by_label("Your name")).to_be_visible()


def test_an_answer_is_text_whatever_it_holds(run, serve, browser):
    _, url = serve()
    page = browser.new_page(viewport={"width": 820, "height": 1180})
    enter(page, url, "Cleo")
    items = Reviews(run).items
    tricky = [item.id for item in items.values() if item.answer == TRICK]
    shown = []
    for number in range(4):
        page.locator(".strip button").nth(number).click()
        page.locator(f".strip button.here >> text='{number + 1}'").wait_for()
        shown.append(page.locator(".answer .text").inner_text())
        assert page.locator(".desk img, .desk script, .desk b:not(.criteria b, .levels b)").count() == 0
    assert sorted(shown) == sorted(item.answer for item in items.values())
    assert tricky
    assert page.evaluate("window.owned === undefined")
    # Nothing sticks out at this width.
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
