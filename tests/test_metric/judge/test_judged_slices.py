"""J and the judges' scores by kind of record, of one run and of two."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers.board_runs import make_run
from helpers.commands import h2htalk

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.judged_slices import compare_judged, judged_slices, judged_values
from h2htalk_metric.judge.judgement import Judgement, append_judgement, item_key
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.reports.report import report_sections
from h2htalk_metric.runs.run import Run
from h2htalk_metric.stats.significance import paired_test

TASKS = ("DialogueBase", "ItineraryBasic", "ItineraryMiddle")


def judged(folder, mark, missing=(), **settings):
    """A run of 8 records per task whose n-th answer has `mark(n)` from the judge; `missing` places have no score."""
    make_run(folder, "org/Model", tasks=",".join(TASKS), limit=8)
    Panel(("m",), **settings).write(folder)
    for place, item in enumerate(judge_items(folder, TASKS)):
        judgement = Judgement(item.id, item.rubric.name, "m", item_key(item, "m", 0, 0))
        content = {"unscored": "no"} if place in missing else {"score": float(mark(place)), "position_bias": 0}
        append_judgement(folder, replace(judgement, **content))
    return Run(folder)


@pytest.fixture
def two_runs(tmp_path):
    first = judged(tmp_path / "first", lambda place: place % 5 + 1, missing={8})
    return first, judged(tmp_path / "second", lambda place: 2)


def test_slices_of_j_are_means_over_the_judged_answers(two_runs):
    first = two_runs[0]
    values, items = judged_values(first), pd.read_parquet(first.path / "scores.parquet")
    assert list(values) == ["j", "judge_score"]
    assert values["j"].notna().sum() == 15 and values["judge_score"].notna().sum() == 8  # one of 16 has no score
    parts = judged_slices(first)
    assert set(parts["j"]) == {"difficulty"}  # the tasks of Eq. 3 have no needs and no turns
    assert {"need", "difficulty", "turns"} <= set(parts["judge_score"])
    for factor, column in (("need", "need"), ("difficulty", "difficulty")):
        for one in parts["judge_score"][factor]:
            chosen = (items[column].astype(str).str.removesuffix(".0") == one.level) & (items["task"] == "DialogueBase")
            assert one.n == chosen.sum()
            assert one.score.value == pytest.approx(values["judge_score"][chosen].mean())


def test_differences_of_j_are_tested_per_config_and_level(two_runs):
    tests = compare_judged(*two_runs)
    one, other = (judged_values(run)["j"].to_numpy() for run in two_runs)
    items = pd.read_parquet(two_runs[0].path / "scores.parquet")
    basic = (items["task"] == "ItineraryBasic").to_numpy()
    expected = paired_test(one[basic], other[basic], items["relationship"].to_numpy()[basic])
    test = tests["j"]["config", "ItineraryBasic"]
    assert test._replace(p_holm=0) == expected._replace(p_holm=0) and test.items == 7
    assert ("difficulty", "3") in tests["j"] and ("need", "implicit") in tests["judge_score"]
    assert ("config", "DialogueBase") in tests["judge_score"] and ("config", "DialogueBase") not in tests["j"]
    assert np.isfinite(test.detectable)


def test_runs_judged_in_different_ways_are_not_compared(two_runs, tmp_path):
    first, second = two_runs
    other_alpha = judged(tmp_path / "alpha", lambda place: 3, alpha=0.5)
    with pytest.raises(
        H2HTalkError, match=r"judged in different ways \(alpha 0\.6 against 0\.5\); judge both the same"
    ):
        compare_judged(first, other_alpha)
    other_tau = judged(tmp_path / "tau", lambda place: 3, tau=3.0)
    assert compare_judged(first, other_tau)["j"].keys() == compare_judged(first, second)["j"].keys()
    (second.path / "judge.json").unlink()
    (second.path / "judgements.jsonl").unlink()
    assert compare_judged(first, Run(second.path)) == {}


def test_report_and_compare_show_j_by_level(two_runs, tmp_path):
    section = next(one for one in report_sections(two_runs[0]) if one.anchor == "difficulty")
    titles = [table.title for table in section.tables]
    assert titles[:3] == ["S by level", "J by level, 0 to 5", "judge_score of other tasks by level, 0 to 5"]
    assert all("detectable" in [column.title for column in table.columns] for table in section.tables)
    done = h2htalk("compare", *(run.path for run in two_runs))
    assert done.returncode == 0, done.stderr
    assert "A minus B, J, 0 to 5" in done.stdout and "A minus B, judge_score of other tasks" in done.stdout
    other_alpha = judged(tmp_path / "alpha", lambda place: 3, alpha=0.5)
    done = h2htalk("compare", two_runs[0].path, other_alpha.path)
    assert done.returncode == 0 and "J is not compared: the runs were judged in different ways" in done.stdout
