"""Names and claims of the report and of the comparison, as Markdown and on a terminal."""

import json
import shutil
from dataclasses import replace

import pytest
from helpers.board_runs import make_run
from helpers.report_runs import HOSTILE

from h2htalk_metric.reports.comparison import comparison
from h2htalk_metric.reports.markdown import markdown, markdown_table
from h2htalk_metric.reports.report import print_report, report_sections
from h2htalk_metric.reports.table import Bullets, Code, Column, Row, Section, Table, numbers
from h2htalk_metric.reports.terminal import print_sections
from h2htalk_metric.runs.run import Run
from h2htalk_metric.stats.significance import PairedTest

TABLE = Table(
    "A title",
    (Column("name", "text"), *numbers("value"), Column("", "plot")),
    (Row(("a|b", ("1.00", "0.50 to 1.50"), "<svg>")), Row(("total", "2.00", "<svg>"), emphasized=True)),
    notes=("A note.",),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One record of each task."""
    return Run(make_run(tmp_path_factory.mktemp("report") / "run", "org/Base", limit=1))


def with_model(run, folder, model):
    """A copy of a run by another model."""
    shutil.copytree(run.path, folder)
    (folder / "run.json").write_text(json.dumps(run.manifest | {"model": model}))
    return Run(folder)


def text_of(run):
    return markdown(f"{run.model} on H2HTalk", report_sections(run))


def test_the_adapter_is_named(run, tmp_path):
    assert "adapter" not in text_of(run)
    adapted = with_model(run, tmp_path / "run", run.manifest["model"] | {"adapter": "team/lora[x]@1234"})
    text = text_of(adapted)
    assert text.startswith("# org/Base + team/lora\\[x\\]@1234 on H2HTalk\n")
    assert "- LoRA adapter: team/lora\\[x\\]@1234\n" in text
    title = "S times 100: A = org/Base + team/lora[x]@1234, B = org/Base + team/lora[x]@1234"
    assert comparison(adapted, adapted, {}).title == title


def test_a_model_behind_a_server_is_reported_with_its_server(run, tmp_path):
    model = {"engine": "openai", "name": "m", "server": "http://localhost:8000/v1", "revision": "unknown"}
    text = text_of(with_model(run, tmp_path / "run", model))
    assert "- model: m, revision unknown, behind http://localhost:8000/v1\n" in text


def test_every_config_is_in_the_report_and_on_the_terminal(run, capsys):
    print_report(run)
    printed, text = capsys.readouterr().out, text_of(run)
    for name in ("DialogueBase", "ItineraryResponse", "RecollectionSynthesis", "Overall"):
        assert f"│ {name} " in printed
        assert f"| {name} |" in text or f"| **{name}** |" in text


def test_only_what_was_corrected_is_shown_as_corrected_and_starred(run):
    test = PairedTest(items=9, clusters=9, difference=1.0, low=0.5, high=1.5, p=0.001, p_holm=0.001, detectable=1.0)
    tests = {
        "DialogueBase": test._replace(p_holm=0.011),
        "ItineraryBasic": test._replace(p=0.01, p_holm=0.1),
        "DialogueAvg": test,
        "Overall": test,
    }
    table = comparison(run, run, tests)
    columns = {column.title: [row.cells[place] for row in table.rows] for place, column in enumerate(table.columns)}
    assert columns["p"] == ["0.0010", "0.0100", "0.0010", "0.0010"]
    assert columns["p (Holm)"] == ["0.0110", "0.1000", "-", "-"]
    assert columns[""] == ["*", "", "", ""]
    assert columns["95% interval"] == ["+0.50 to +1.50"] * 4


def test_a_table_as_markdown_escapes_texts_and_has_no_plots():
    assert markdown_table(TABLE).splitlines() == [
        "| name | value |",
        "| --- | ---: |",
        "| a\\|b | 1.00 (0.50 to 1.50) |",
        "| **total** | **2.00** |",
    ]


def test_a_document_has_titles_of_tables_only_where_a_section_has_several():
    once = Section("one", "One", ("A *text*, not an_emphasis.", TABLE, Bullets(("first",)), Code("a `b`")))
    text = markdown("Doc", [once])
    assert text.startswith("# Doc\n\n## One\n\nA \\*text\\*, not an_emphasis.\n\n| name")
    assert text.endswith("A note.\n\n- first\n\n`a b`\n")
    assert "### A title" in markdown("Doc", [replace(once, blocks=(TABLE, TABLE))])


def test_a_terminal_shows_text_as_it_is(capsys):
    hostile = Table("[bold]x[/bold]\x1b[31m", TABLE.columns, (Row((HOSTILE, "1.00", "")),))
    print_sections([Section("one", "[red]One[/red]", (hostile, Bullets(("[link=x]first",))))], width=200)
    printed = capsys.readouterr().out
    assert "[bold]x[/bold]" in printed and "[red]One[/red]" in printed and "- [link=x]first" in printed
    assert "\x1b" not in printed
