"""Make docs/images/report.png: the top of a run's report.html, as the README shows it.

python docs/make_images.py RUN     needs playwright and chromium (`make debian`), and a run that is scored
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 1300, 900


def main(run: Path) -> None:
    """Open the report in a headless browser and save its first screen."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto((run / "report.html").resolve().as_uri())
        page.screenshot(path=IMAGES / "report.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
