"""The leaderboard as a Gradio app: two boards that never mix, a submission form, and a page per run."""

__all__ = ["build_app", "launch"]

import json
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple

import gradio as gr

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_metric.leaderboard import paper
from h2htalk_metric.leaderboard.board import (
    BoardRow,
    board_csv,
    by_scoring_config,
    paper_board,
    run_board,
    table_data,
)
from h2htalk_metric.leaderboard.comparison import choices, comparison
from h2htalk_metric.leaderboard.row import Row
from h2htalk_metric.leaderboard.run_page import run_page
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.leaderboard.submission import MAX_PACKED
from h2htalk_metric.reports.svg import MAX_RADAR_LINES

_FOLDER = Path(__file__).parent
_DELETE_CACHE = (3600, 86_400)  # seconds: every hour, Gradio deletes uploads and downloads older than a day
# Events that only read skip the queue, which is for submissions.
_READ_ONLY: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}

_INTRO = f"""
<h1>H2HTalk leaderboard</h1>
<p>How well language models work as an emotional companion: eleven tasks, the composite S of
<a href="{paper.URL}">arXiv:2507.03543</a>, times 100.</p>
"""
_ABOUT_RUNS = """
<p>Runs over this project's own 4,650 records, scored from their raw answers. They are never ranked against the paper's
figures: other records, other references, other prompts. One table contains only runs with the same embedder, weights
and precision over the same records. The board can check what an answer scores, but not who gave it: model names and
answers are the sender's claim. All intervals are 95% intervals, clustered by relationship.</p>
"""
_ABOUT_RECOMPUTED = """
<p>This board computes SS again if it has the embedder. Only runs with a recomputed SS get places and ties; the others
are shown without a place and marked °.</p>
"""
_ABOUT_PAPER = f"""
<p>As published: {escape(paper.CITATION)}. Never ranked against this project's runs: other records, other references,
other prompts. 35 rows are legible in our copy; for three more models the paper's text states single cells, and their
other cells are blank. Places are among the complete rows. The paper publishes no intervals.</p>
"""
_HOW_TO_SUBMIT = f"""
<p>Make a full run, pack it, and upload the file here (at most {MAX_PACKED // 1_000_000} MB):</p>
<pre>h2htalk run --model ORG/MODEL --out runs/model
h2htalk submit runs/model --bracket 8-31B --pack model.json.gz</pre>
<p>Brackets: {escape(", ".join(paper.BRACKETS))}. The file contains the raw answers, the run's manifest and the scores
that the run claims. The board computes the lexical components, the means, the intervals and the format rates again from
the answers, and refuses claims that do not follow from them. The raw answers become public with the run.</p>
"""


def build_app(storage: Storage, closed: str | None = None) -> gr.Blocks:
    """Build the app.

    Args:
        storage: of the submissions.
        closed: why nothing can be submitted, shown instead of the form; None: submitting is possible.

    """
    with gr.Blocks(
        title="H2HTalk leaderboard", fill_width=True, analytics_enabled=False, delete_cache=_DELETE_CACHE
    ) as app:
        _plain(_INTRO)
        with gr.Tabs():
            with gr.Tab("Runs", id="runs"):
                runs = _RunsTab(storage)
            with gr.Tab("The paper", id="paper"):
                _paper_tab(runs.csv_files)
            with gr.Tab("Submit", id="submit"):
                if closed is None:
                    _submit_tab(storage, runs)
                else:
                    gr.HTML(_message("refused", closed))
        app.load(runs.show, runs.inputs, runs.outputs, **_READ_ONLY)
    with app.route("Run", "run", show_in_navbar=False):
        page = gr.HTML()

        def show_run(request: gr.Request) -> str:
            try:
                return run_page(storage, str(request.query_params.get("id", "")))
            except H2HTalkError as error:
                return _message("refused", str(error))

        app.load(show_run, None, page, **_READ_ONLY)
    return app


def launch(app: gr.Blocks, port: int | None = None, **options: Any) -> None:
    """Serve the app until it is stopped; in a Space, on the port that the Space sets.

    Raises:
        H2HTalkError: the port is in use.

    """
    theme = gr.themes.Base(
        primary_hue="slate", font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
    )
    try:
        app.launch(
            server_port=port,
            theme=theme,
            css_paths=_FOLDER / "board.css",
            max_file_size=MAX_PACKED,
            ssr_mode=False,
            footer_links=[],
            **options,
        )
    except OSError as error:
        raise H2HTalkError(f"the board cannot be served ({error}); choose another --port") from None


class _CsvFiles:
    """CSV files to download, one per table; a changed table replaces its file, and all are removed with the app."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="h2htalk-board-")

    def write(self, title: str, name: str, rows: Sequence[BoardRow]) -> str:
        """Write the file of a table and return its path. Gradio serves its own copy of it."""
        file = Path(self._folder.name, sha256(title.encode()).hexdigest()[:16], name)
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, board_csv(rows))
        return str(file)


class _Table(NamedTuple):
    """What is displayed of the runs of one scoring config, and from which rows it was made."""

    source: list[Row]
    rows: list[BoardRow]
    json: str
    csv_file: str


class _RunsTab:
    """The tab of runs. :meth:`show` with `inputs` and `outputs` displays the current state of the storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._tables = storage, dict[str, _Table]()
        self._updating = Lock()  # several visitors may open the page at once
        self.csv_files = _CsvFiles()
        _plain(_ABOUT_RUNS + (_ABOUT_RECOMPUTED if storage.recompute_ss else ""))
        title = gr.HTML(elem_id="scored-with")
        config = gr.Dropdown(label="Scored with", choices=[], interactive=True, elem_id="scoring-config")
        table = _table(None, "runs-table")
        download, chosen, figure = _below_table("runs", [], None)
        self.inputs: list[Any] = [config]
        self.outputs: list[Any] = [title, config, table, download, chosen]
        config.input(self.show, self.inputs, self.outputs, **_READ_ONLY)
        chosen.change(self._compare, [chosen, config], figure, **_READ_ONLY)
        self._current(None)  # so that the first visitor does not wait for it

    def show(self, title: str | None) -> list[Any]:
        """New values of `outputs`; `title` is the scoring config to show, None the first."""
        titles, title, table = self._current(title)
        shown_title = f'<div class="h2h"><p class="plain">{escape(title)}</p></div>' if len(titles) == 1 else ""
        config = gr.Dropdown(choices=titles, value=title or None, visible=len(titles) > 1)
        chosen = gr.Dropdown(choices=choices(table.rows), value=[], multiselect=True)
        return [shown_title, config, table.json, table.csv_file, chosen]

    def _compare(self, keys: list[str], title: str | None) -> str:
        return comparison(self._current(title)[2].rows, keys)

    def _current(self, title: str | None) -> tuple[list[str], str, _Table]:
        groups = by_scoring_config(self._storage.rows())
        for removed in self._tables.keys() - groups.keys():
            self._tables.pop(removed, None)
        if title not in groups:
            title = next(iter(groups), "")
        source = groups.get(title, [])
        with self._updating:
            table = self._tables.get(title)
            if table is None or table.source != source:
                rows = run_board(source, recompute_ss=self._storage.recompute_ss)
                csv_file = self.csv_files.write(title, "h2htalk-runs.csv", rows)
                table = self._tables[title] = _Table(source, rows, _table_json(rows, links=True), csv_file)
        return list(groups), title, table


def _paper_tab(csv_files: _CsvFiles) -> None:
    rows = paper_board()
    _plain(_ABOUT_PAPER)
    _table(_table_json(rows, links=False), "paper-table")
    _, chosen, figure = _below_table("paper", rows, csv_files.write("paper", "h2htalk-paper.csv", rows))
    chosen.change(lambda keys: comparison(rows, keys), chosen, figure, **_READ_ONLY)


def _submit_tab(storage: Storage, runs: _RunsTab) -> None:
    _plain(_HOW_TO_SUBMIT)
    file = gr.File(label="Packed run (.json.gz)", type="binary", file_types=[".gz"], height=140, elem_id="file")
    button = gr.Button("Check and submit", variant="primary", elem_id="send")
    message = gr.HTML(elem_id="verdict")

    def submit(content: bytes | None) -> str:
        if content is None:
            return _message("refused", "Choose a file first.")
        try:
            row = storage.submit(content)
        except H2HTalkError as error:
            return _message("refused", f"Refused: {error}")
        return _message("accepted", f"On the board: {row.model}", f"run?id={row.digest}")

    # Two at a time: scoring needs the processor.
    submitted = button.click(submit, file, message, api_visibility="private", concurrency_limit=2)
    submitted.then(runs.show, runs.inputs, runs.outputs, **_READ_ONLY)


def _plain(html: str) -> gr.HTML:
    return gr.HTML(f'<div class="h2h"><div class="plain">{html}</div></div>')


def _table(value: str | None, element_id: str) -> gr.HTML:
    template, script = ((_FOLDER / f"table.{suffix}").read_text("utf-8") for suffix in ("html", "js"))
    return gr.HTML(value, html_template=template, js_on_load=script, apply_default_css=False, elem_id=element_id)


def _table_json(rows: Sequence[BoardRow], *, links: bool) -> str:
    """The table's data as one text: in a tree, Gradio would search every leaf for files, on server and client."""
    return json.dumps(table_data(rows, links=links), separators=(",", ":")).replace("<", "\\u003c")


def _below_table(
    board: str, rows: Sequence[BoardRow], csv_file: str | None
) -> tuple[gr.DownloadButton, gr.Dropdown, gr.HTML]:
    """The CSV button, the choice of models to compare, and their comparison."""
    with gr.Row(elem_classes="below"):
        chosen = gr.Dropdown(
            label=f"Compare models, up to {MAX_RADAR_LINES}",
            choices=choices(rows),
            multiselect=True,
            max_choices=MAX_RADAR_LINES,
            interactive=True,
            scale=4,
            elem_id=f"{board}-compare",
        )
        download = gr.DownloadButton(
            "Download CSV", csv_file, size="sm", scale=0, min_width=140, elem_id=f"{board}-csv"
        )
    return download, chosen, gr.HTML(elem_id=f"{board}-radar")


def _message(kind: str, text: str, link: str | None = None) -> str:
    anchor = f' (<a href="{escape(link)}">its page</a>)' if link else ""
    return f'<div class="h2h"><p class="{kind}" role="status">{escape(text)}{anchor}</p></div>'
