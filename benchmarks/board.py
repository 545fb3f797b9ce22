"""Speed of the leaderboard with 1,000 runs: its first page in a browser without cache, and sorting.

The runs answer two records per task and are made by a helper of the tests. Needs the Debian package chromium.

    python benchmarks/board.py
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from results import write

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.board_runs import make_run, variant
from helpers.board_server import served

from h2htalk_metric.leaderboard.from_run import make_submission
from h2htalk_metric.leaderboard.paper import BRACKETS
from h2htalk_metric.leaderboard.storage import Storage

RUNS, OPENINGS = 1000, 7
SORT = """button => new Promise(done => {
  const start = performance.now();
  button.click();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
})"""


def fill(folder: Path) -> None:
    """A thousand submissions, each validated by the board."""
    run = make_run(folder / "run", "org/model", limit=2)
    tree = json.loads(make_submission(run, "1-8B").model_dump_json())
    board = Storage(folder / "board", allow_partial=True)
    for number in range(RUNS):
        bracket = BRACKETS[number % len(BRACKETS)]
        board.submit(variant(tree | {"bracket": bracket}, number, words=1 + number % 7))


def measure(browser: Browser, url: str) -> tuple[float, list[float]]:
    """Seconds from the request of the page to its first row, and milliseconds of six sorts."""
    page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    start = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.locator("#runs-table tbody tr:not(.bracket) td").first.wait_for()
    first = time.perf_counter() - start
    assert "1000 models" in page.locator("#runs-table [data-part=count]").inner_text()
    columns = ("Middle", "Overall", "Model") * 2
    sorts = [page.locator("#runs-table thead button", has_text=column).evaluate(SORT) for column in columns]
    page.context.close()
    return first, sorts


def main() -> None:
    """Fill a board, open it several times, and write the figures to RESULTS.md."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        fill(Path(folder))
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with served(Path(folder) / "board") as url:
            measured = [measure(browser, url) for _ in range(OPENINGS)]
    firsts, sorts = [first for first, _ in measured], [sort for _, many in measured for sort in many]
    lines = [
        f"{RUNS:,} runs; headless Chromium without a cache; median (lowest to highest).",
        "",
        "| | |",
        "|---|---:|",
        f"| first row of the table, {len(firsts)} openings | {_median_and_range(firsts, 2)} s |",
        f"| sort to the next frame, {len(sorts)} sorts | {_median_and_range(sorts, 0)} ms |",
    ]
    write("Leaderboard", "\n".join(lines), ["gradio"])


def _median_and_range(values: list[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    main()
