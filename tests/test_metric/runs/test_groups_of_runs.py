"""Many runs compared: which runs are kept apart, labels, ranks, letters."""

import numpy as np
import pytest
from helpers.board_runs import make_run

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.runs.compare import compare_runs
from h2htalk_metric.runs.groups import run_groups
from h2htalk_metric.runs.run import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    options = {"tasks": "DialogueEmotion,ItineraryBasic", "limit": 40}
    make_run(folder / "good", "org/A", share=0.8, **options)
    make_run(folder / "same", "org/A", share=0.8, seed=1, **options)
    make_run(folder / "bad", "org/B", share=0.4, **options)
    make_run(folder / "other-embedder", "org/C", embedder="another", **options)
    make_run(folder / "fewer", "org/D", tasks="DialogueEmotion", limit=10)
    return folder


def opened(folder, *names):
    return [Run(folder / name) for name in names]


def test_runs_that_cannot_be_compared_are_kept_apart_with_the_reason(runs):
    groups = run_groups(opened(runs, "other-embedder", "bad", "fewer", "good", "same"))
    assert [set(group.runs) for group in groups[:1]] == [{"org/A (good)", "org/A (same)", "org/B"}]
    reasons = {next(iter(group.runs)): group.reason for group in groups[1:]}
    assert "embedder (hashed-words against another)" in reasons["org/C"]
    assert "different records" in reasons["org/D"] or "dataset" in reasons["org/D"]
    assert groups[0].reason == ""


def test_runs_are_ranked_by_the_mean_of_their_configs_and_lettered(runs):
    group = run_groups(opened(runs, "bad", "good", "same"))[0]
    labels = list(group.runs)
    assert labels[-1] == "org/B" and set(labels[:2]) == {"org/A (good)", "org/A (same)"}
    assert group.letters == {labels[0]: ("a",), labels[1]: ("a",), "org/B": ("b",)}
    assert group.mean_name == "mean of 2 configs"
    composites = group.scores["org/B"].composites()
    # Weights: the counts of Table 1, 99 and 207.
    expected = (99 * composites["DialogueEmotion"].mean() + 207 * composites["ItineraryBasic"].mean()) / 306
    assert group.means["org/B"].value == pytest.approx(100 * expected)


def test_two_runs_are_tested_as_compare_does(runs):
    one, other = opened(runs, "good", "bad")
    group = run_groups([one, other])[0]
    test = group.tests["org/A", "org/B"]
    cells = compare_runs(one, other)
    weights = np.array([99, 207]) / 306
    differences = [cells[task].difference for task in ("DialogueEmotion", "ItineraryBasic")]
    assert test.difference == pytest.approx(weights @ differences)
    assert group.mean_name == "mean of 2 configs"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["good"], "1 runs; compare 2 to 50 runs"),
        (["good", "good"], "is named twice"),
        (["good", "other-embedder"], "differ in embedder"),
        (["good"] * 51, "51 runs"),
    ],
)
def test_what_cannot_be_compared_is_refused(runs, names, message):
    with pytest.raises(H2HTalkError, match=message):
        run_groups(opened(runs, *names))
