"""The page of `h2htalk compare --out`: its tables, its figure of sizes, hostile texts, and 50 runs."""

import re

import numpy as np
import pytest
from helpers.board_runs import make_run
from helpers.commands import h2htalk
from helpers.html_elements import elements_of
from helpers.report_runs import HOSTILE

from h2htalk_metric.reports.comparison_page import comparison_page
from h2htalk_metric.reports.different_answers import most_different
from h2htalk_metric.runs.groups import run_groups
from h2htalk_metric.runs.model_sizes import ModelSize
from h2htalk_metric.runs.run import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    options = {"tasks": "DialogueEmotion,DialogueBase,DialogueSchedule", "limit": 20}
    make_run(folder / "a", "org/A-1B", share=0.5, **options)
    make_run(folder / "b", "org/A-7B", share=0.7, seed=1, **options)
    make_run(folder / "c", f"org/C {HOSTILE}", share=0.6, seed=2, **options)
    make_run(folder / "d", "org/D", embedder="another", **options)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    sizes = {("org/A-1B", ""): ModelSize("A", 1.2), ("org/A-7B", ""): ModelSize("A", 7.6)}
    return comparison_page(run_groups([Run(folder / name) for name in "abcd"]), sizes)


def test_the_page_is_one_file_without_scripts_and_hostile_names_stay_text(page):
    tags = elements_of(page)
    assert not {"script", "img", "link"} & {tag for tag, a in tags if a.get("href") != "data:,"}
    assert all(name not in attributes for _, attributes in tags for name in ("src", "srcset", "onerror"))
    assert "script-src 'none'" in page and "&lt;/script&gt;" in page


def test_the_page_has_every_part_and_keeps_the_other_run_apart(page):
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    parts = ("Scores", "Configs", "By need and difficulty", "Size", "Most different answers", "How they were made")
    assert titles == ["Groups", *(f"Group 1: {part}" for part in parts)]
    assert "embedder (hashed-words against another)" in page
    assert page.count("org/D") == 1  # named as apart, and in no table
    assert "org/A-7B, 7.6 billion: " in page  # a point of the figure of sizes
    assert "Runs without a known size: 1." in page


def test_the_most_different_answers_are_those_with_the_largest_spread(folder):
    group = run_groups([Run(folder / name) for name in "abc"])[0]
    scores = np.stack([one.items["composite"] for one in group.scores.values()])
    empty = np.any([one.items["empty"] for one in group.scores.values()], axis=0)
    is_task = (group.first.items["task"] == "DialogueBase").to_numpy()
    expected = 100 * np.where(is_task & ~empty, np.ptp(scores, axis=0), -1).max()
    records = most_different(group)["DialogueBase"]
    assert records[0].spread >= expected - 1e-9 and records[0].spread >= records[1].spread
    highest, lowest = records[0].answers[0], records[0].answers[-1]
    assert float(highest[1]) - float(lowest[1]) == pytest.approx(records[0].spread, abs=0.1)
    assert highest[2] == group.runs[highest[0]].answers()[records[0].id]


def test_the_command_ranks_three_runs_and_writes_the_page(folder, tmp_path):
    out = tmp_path / "new" / "compare.html"
    done = h2htalk("compare", folder / "a", folder / "b", folder / "d", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "apart: org/D: the runs' signatures differ in embedder" in done.stdout
    assert f"comparison: {out}" in done.stdout and out.stat().st_size > 10_000


def test_fifty_runs_fit_on_one_page(tmp_path):
    for number in range(50):
        options = {"share": 0.3 + number / 80, "seed": number, "tasks": "DialogueEmotion", "limit": 25}
        make_run(tmp_path / str(number), f"org/M{number}", **options)
    group = run_groups([Run(tmp_path / str(number)) for number in range(50)])[0]
    assert len(group.tests) == 50 * 49 // 2
    best, *_, worst = group.runs
    # With 10,000 sign flips the smallest p would be 1,225 / 10,001.
    assert group.tests[best, worst].p_holm < 0.05 and len(group.letters[worst]) < 20
    page = comparison_page([group])
    assert page.count("org/M49") > 3 and "no difference can reach" not in page


def test_a_page_says_when_no_difference_can_be_significant(tmp_path):
    for number in range(3):
        make_run(tmp_path / str(number), f"org/M{number}", share=0.3 * number, tasks="DialogueEmotion", limit=4)
    page = comparison_page(run_groups([Run(tmp_path / str(number)) for number in range(3)]))
    assert "Relationships: 4, pairs of runs: 3. With so few relationships no difference can reach" in page
