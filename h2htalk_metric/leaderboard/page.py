"""The leaderboard as a Gradio app: two boards that never mix, submission, and a page for each run."""

__all__ = ["build_app", "launch"]

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from threading import Lock
from typing import Any

import gradio as gr

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_metric.leaderboard import paper
from h2htalk_metric.leaderboard.admission import Row
from h2htalk_metric.leaderboard.board import (
    BoardRow,
    differences,
    paper_board,
    run_board,
    setups,
    table_payload,
    to_csv,
)
from h2htalk_metric.leaderboard.radar import MOST, radar_svg
from h2htalk_metric.leaderboard.run_page import run_page
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.leaderboard.submission import MAX_PACKED

_HERE = Path(__file__).parent
_WRITING = Lock()
_KEPT_UPLOADS = (3600, 86_400)  # seconds: every hour those are deleted that are older than a day
# What only reads is answered at once; the queue, which a visitor would join first, is for submissions.
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}

_INTRO = f"""
<h1>H2HTalk leaderboard</h1>
<p>How well language models work as an emotional companion: eleven tasks, the composite S of
<a href="{paper.URL}">arXiv:2507.03543</a>, times 100.</p>
"""
_ABOUT_RUNS = """
<p>Runs over this project's own 4,650 records, scored from their raw answers. Never ranked against the paper's figures:
other records, other references, other prompts. Only runs with the same embedder, weights and precision on the same
records stand in one table. Model names and answers are the sender's word: the board can check what an answer scores,
not who gave it.</p>
"""
_ABOUT_RECOMPUTED = """
<p>This board embeds all answers anew where it knows the embedder. Only runs whose SS it recomputed get places and ties;
the others are shown, marked °, and unplaced.</p>
"""
_ABOUT_PAPER = f"""
<p>As published: {escape(paper.CITATION)}. Never ranked against this project's runs: other records, other references,
other prompts. 35 rows are legible in our copy; of three more models the paper's text states single cells, and what is
unknown is left blank. The marks are among the whole rows that stand here. The paper publishes no intervals.</p>
"""
_HOW_TO_SUBMIT = f"""
<p>Make a whole run, pack it, and upload the file here (at most {MAX_PACKED // 1_000_000} MB):</p>
<pre>h2htalk run --model ORG/MODEL --out runs/model
h2htalk submit runs/model --bracket 8-31B --pack model.json.gz</pre>
<p>Brackets: {", ".join(paper.BRACKETS)}. The file holds the raw answers, the run's manifest and the figures that the
run claims. The board computes the lexical components, the aggregation, the intervals and the contracts anew from the
answers, and refuses what does not follow. Raw answers become public with the run.</p>
"""


def build_app(storage: Storage, closed: str | None = None) -> gr.Blocks:
    """Put the app together over a storage.

    Args:
        storage: of the submissions.
        closed: why nothing can be submitted, shown in the form's place; None where it can.

    """
    with gr.Blocks(
        title="H2HTalk leaderboard", fill_width=True, analytics_enabled=False, delete_cache=_KEPT_UPLOADS
    ) as app:
        _plain(_INTRO)
        with gr.Tabs():
            with gr.Tab("Runs", id="runs"):
                show_runs = _runs_tab(storage)
            with gr.Tab("The paper", id="paper"):
                _paper_tab()
            with gr.Tab("Submit", id="submit"):
                if closed is None:
                    _submit_tab(storage, *show_runs)
                else:
                    gr.HTML(_verdict("refused", closed))
        function, inputs, outputs = show_runs
        app.load(function, inputs, outputs, **_QUIET)
    with app.route("Run", "run", show_in_navbar=False):
        page = gr.HTML()

        def show_run(request: gr.Request) -> str:
            return _run(storage, request)

        app.load(show_run, None, page, **_QUIET)
    return app


def launch(app: gr.Blocks, port: int | None = None, **options: Any) -> None:
    """Serve the app until it is stopped; in a Space, on the port that the Space names.

    Raises:
        H2HTalkError: the port is taken.

    """
    theme = gr.themes.Base(
        primary_hue="slate", font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
    )
    try:
        app.launch(
            server_port=port,
            theme=theme,
            css_paths=_HERE / "board.css",
            max_file_size=MAX_PACKED,
            ssr_mode=False,
            footer_links=[],
            **options,
        )
    except OSError as error:
        raise H2HTalkError(f"the board can't be served ({error}); name another --port") from None


def _plain(html: str) -> gr.HTML:
    return gr.HTML(f'<div class="h2h"><div class="plain">{html}</div></div>')


def _table(value: str | None, name: str) -> gr.HTML:
    """The table of what :func:`_drawn` returns; None until that is known."""
    template, script = ((_HERE / f"table.{end}").read_text("utf-8") for end in ("html", "js"))
    return gr.HTML(value, html_template=template, js_on_load=script, apply_default_css=False, elem_id=name)


def _drawn(rows: Sequence[BoardRow], *, links: bool) -> str:
    """What the table draws, as one text: of a tree Gradio would visit every leaf, on both sides, looking for files."""
    return json.dumps(table_payload(rows, links=links), separators=(",", ":")).replace("<", "\\u003c")


def _runs_tab(storage: Storage) -> tuple[Any, list[Any], list[Any]]:
    """The tab of runs; returns what shows them anew: a function, its inputs and its outputs."""
    _plain(_ABOUT_RUNS + (_ABOUT_RECOMPUTED if storage.recompute_ss else ""))
    scored_with = gr.HTML(elem_id="scored-with")
    setup = gr.Dropdown(label="Scored with", choices=[], interactive=True, elem_id="setup")
    table = _table(None, "runs-table")
    download, chosen, figure = _below("runs")

    drawn: dict[str, tuple[Sequence[Row], tuple[list[BoardRow], str, str]]] = {}  # by title, with what it was drawn of

    def board_of(title: str, rows: Sequence[Row]) -> tuple[list[BoardRow], str, str]:
        known = drawn.get(title)
        if known is None or known[0] != rows:
            placed = run_board(rows, storage)
            known = rows, (placed, _drawn(placed, links=True), _csv_file(placed, "h2htalk-runs.csv"))
            drawn[title] = known
        return known[1]

    def found(title: str | None) -> tuple[list[str], str | None, tuple[list[BoardRow], str, str]]:
        groups = setups(storage.rows())
        for gone in set(drawn) - groups.keys():
            drawn.pop(gone, None)
        title = title if title in groups else next(iter(groups), "")
        return list(groups), title or None, board_of(title, groups.get(title, []))

    def show(title: str | None) -> list[Any]:
        titles, title, (rows, payload, file) = found(title)
        shown = gr.Dropdown(choices=titles, value=title, visible=len(titles) > 1)
        told = f'<div class="h2h"><p class="plain">{escape(title)}</p></div>' if len(titles) == 1 and title else ""
        return [told, shown, payload, file, gr.Dropdown(choices=_choices(rows), value=[])]

    def compare(keys: list[str], title: str | None) -> str:
        rows = _chosen(found(title)[2][0], keys)
        return _comparison(rows, differences(rows, storage) if rows else [])

    found(None)  # so that the first visitor does not wait for it
    outputs = [scored_with, setup, table, download, chosen]
    setup.input(show, setup, outputs, **_QUIET)
    chosen.change(compare, [chosen, setup], figure, **_QUIET)
    return show, [setup], outputs


def _paper_tab() -> None:
    rows = paper_board()
    _plain(_ABOUT_PAPER)
    _table(_drawn(rows, links=False), "paper-table")
    _, chosen, figure = _below("paper", rows)
    chosen.change(lambda keys: _comparison(_chosen(rows, keys), []), chosen, figure, **_QUIET)


def _below(board: str, rows: Sequence[BoardRow] = ()) -> tuple[gr.DownloadButton, gr.Dropdown, gr.HTML]:
    """What stands below a table: download, choice of models to compare, their radar."""
    with gr.Row(elem_classes="below"):
        chosen = gr.Dropdown(
            label=f"Compare models, up to {MOST}",
            choices=_choices(rows),
            multiselect=True,
            max_choices=MOST,
            interactive=True,
            scale=4,
            elem_id=f"{board}-compare",
        )
        file = _csv_file(rows, f"h2htalk-{board}.csv")
        download = gr.DownloadButton("Download CSV", file, size="sm", scale=0, min_width=140, elem_id=f"{board}-csv")
    return download, chosen, gr.HTML(elem_id=f"{board}-radar")


def _submit_tab(storage: Storage, show: Any, shown_inputs: list[Any], shown_outputs: list[Any]) -> None:
    _plain(_HOW_TO_SUBMIT)
    file = gr.File(label="Packed run (.json.gz)", type="binary", file_types=[".gz"], height=140, elem_id="file")
    button = gr.Button("Check and submit", variant="primary", elem_id="send")
    verdict = gr.HTML(elem_id="verdict")

    def send(content: bytes | None) -> str:
        if content is None:
            return _verdict("refused", "Choose a file first.")
        try:
            row = storage.submit(content)
        except H2HTalkError as error:
            return _verdict("refused", f"Refused: {error}")
        return _verdict("accepted", f"On the board: {row.model}", f"run?id={row.digest}")

    # Two at a time: scoring is work for the processor.
    sent = button.click(send, file, verdict, api_visibility="private", concurrency_limit=2)
    sent.then(show, shown_inputs, shown_outputs, **_QUIET)


def _verdict(kind: str, text: str, link: str | None = None) -> str:
    more = f' (<a href="{escape(link)}">its page</a>)' if link else ""
    return f'<div class="h2h"><p class="{kind}" role="status">{escape(text)}{more}</p></div>'


def _run(storage: Storage, request: gr.Request) -> str:
    try:
        return run_page(storage, str(request.query_params.get("id", "")))
    except H2HTalkError as error:
        return _verdict("refused", str(error))


def _choices(rows: Sequence[BoardRow]) -> list[Any]:
    """Labels to choose by; a name that several rows bear gets the row's key beside it."""
    bearers = Counter(row.model for row in rows)
    return [(row.model if bearers[row.model] == 1 else f"{row.model} ({row.key[:6]})", row.key) for row in rows]


def _chosen(rows: Sequence[BoardRow], keys: Sequence[str]) -> list[BoardRow]:
    by_key = {row.key: row for row in rows}
    return [by_key[key] for key in keys[:MOST] if key in by_key]


def _comparison(rows: Sequence[BoardRow], gaps: Sequence[tuple[str, float, float, float]]) -> str:
    if not rows:
        return ""
    lines = "".join(
        f"<tr><th>{escape(name)}</th><td>{value:+.2f}</td><td>{low:+.2f} to {high:+.2f}</td></tr>"
        for name, value, low, high in gaps
    )
    table = (
        f"<p>Overall against {escape(rows[0].model)}, with paired 95% bootstrap intervals</p>"
        f'<table class="facts">{lines}</table>'
        if gaps
        else ""
    )
    return f'<div class="h2h">{radar_svg(rows)}<div class="plain">{table}</div></div>'


def _csv_file(rows: Sequence[BoardRow], name: str) -> str:
    """A file with the board's CSV; the same one for the same content, however often the page is opened."""
    text = to_csv(rows).encode()
    with _WRITING:  # several visitors may open the page at once
        file = _exports() / sha256(text).hexdigest()[:16] / name
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            write_atomically(file, text)
    return str(file)


@cache
def _exports() -> Path:
    return Path(tempfile.mkdtemp(prefix="h2htalk-board-"))
