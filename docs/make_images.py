"""Make the picture of the README and of the dataset card: header and scores of a run's report.html.

python docs/make_images.py RUN     needs playwright and chromium (`make debian`), pillow, and a run with a report
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

# A card is published with its own folder only, and the README can show a file of it.
PICTURE = Path(__file__).parents[1] / "h2htalk_datasets" / "figures" / "report.png"
WIDTH, MARGIN = 1300, 24
COLOURS = 128
MAX_BYTES = 200_000


def main(run: Path) -> None:
    """Open the report in a headless browser, and save its header and its table of scores."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto((run / "report.html").resolve().as_uri())
        box = page.locator("#scores .with-figure").bounding_box()
        if box is None:
            raise SystemExit(f"{run} has a report without a radar; it needs three configs")
        height = box["y"] + box["height"] + MARGIN
        screen = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        browser.close()
    Image.open(io.BytesIO(screen)).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)
    size = PICTURE.stat().st_size
    if size > MAX_BYTES:
        raise SystemExit(f"{PICTURE} has {size:,} bytes; the limit is {MAX_BYTES:,}, so take fewer colours")
    print(f"{PICTURE}: {size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
