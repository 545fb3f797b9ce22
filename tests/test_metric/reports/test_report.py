"""Names and claims of the report and of the comparison, for a terminal and as Markdown."""

from dataclasses import replace

import pytest
from helpers.board_runs import make_run

from h2htalk_metric.reports.run_report import comparison_table, markdown, scores_table
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.significance import PairedTest


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """One record of each task."""
    return RunScores.read(make_run(tmp_path_factory.mktemp("report") / "run", "org/Base", limit=1))


def of_model(scores, **model):
    return replace(scores, manifest=scores.manifest | {"model": model})


@pytest.fixture(scope="module")
def adapted(scores):
    return of_model(scores, **scores.manifest["model"], adapter="team/lora[x]@1234")


def test_the_adapter_is_named(scores, adapted):
    told = markdown(adapted)
    assert told.startswith("# org/Base + team/lora\\[x\\]@1234 on H2HTalk\n")
    assert "- LoRA adapter: team/lora\\[x\\]@1234\n" in told
    assert "adapter" not in markdown(scores)
    assert scores_table(adapted).title == "S of org/Base + team/lora\\[x]@1234, times 100"
    title = comparison_table(scores, adapted, {}).title
    assert title == "S times 100: A = org/Base, B = org/Base + team/lora\\[x]@1234"


def test_a_model_behind_a_server_is_reported_with_its_server(scores):
    hosted = of_model(scores, engine="openai", name="m", server="http://localhost:8000/v1", revision="unknown")
    assert "- model: m, revision unknown, behind http://localhost:8000/v1\n" in markdown(hosted)


def test_only_what_was_corrected_is_shown_as_corrected_and_starred(scores):
    tests = {
        "DialogueBase": PairedTest(1.0, 0.5, 1.5, 0.001, 0.011),
        "ItineraryBasic": PairedTest(1.0, 0.5, 1.5, 0.01, 0.1),
        "DialogueAvg": PairedTest(1.0, 0.5, 1.5, 0.001, 0.001),
        "Overall": PairedTest(1.0, 0.5, 1.5, 0.001, 0.001),
    }
    columns = {str(column.header): list(column.cells) for column in comparison_table(scores, scores, tests).columns}
    assert columns["p"] == ["0.0010", "0.0100", "0.0010", "0.0010"]
    assert columns["p (Holm)"] == ["0.0110", "0.1000", "-", "-"]
    assert columns[""] == ["*", "", "", ""]
