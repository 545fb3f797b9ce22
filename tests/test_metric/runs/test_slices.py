"""Slices by need, difficulty and turns, and the effect of a need that is not said aloud."""

import numpy as np
import pandas as pd
import pytest
from helpers.board_runs import make_run

from h2htalk_datasets import load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.reports.comparison import slice_comparison
from h2htalk_metric.runs.compare import compare_need, compare_slices
from h2htalk_metric.runs.scored_items import score_answers
from h2htalk_metric.runs.scoring import RunScores, read_scores
from h2htalk_metric.runs.slices import FACTORS, need_effects, slices
from h2htalk_metric.stats.significance import holm


def scores_of(composite):
    """Scores of all records of two configs; `composite` is a function of their items."""
    records = [row for task in ("DialogueBase", "DialogueSchedule") for row in load(task).select(range(400))]
    predictions = [{"prediction": ""} for _ in records]
    items, signature = score_answers(predictions, records, similarity=np.zeros(len(records)))
    items[[*COMPONENTS]] = 0.0
    items["composite"] = composite(items)
    return RunScores(items, signature, {})


@pytest.fixture(scope="module")
def longer_is_higher():
    """S depends on the reference's length alone."""
    return scores_of(lambda items: 0.01 * np.log(items["reference_words"].to_numpy()))


def test_a_slice_is_the_mean_of_its_records(longer_is_higher):
    items = longer_is_higher.items
    by_need = {part.level: part for part in slices(longer_is_higher, "need")}
    assert list(by_need) == ["explicit", "implicit", "evolving", "contextual"]
    for level, part in by_need.items():
        chosen = items[items["need"] == level]
        assert part.n == len(chosen)
        assert part.score.value == pytest.approx(100 * chosen["composite"].mean())
        assert part.score.low < part.score.value < part.score.high
    assert sum(part.n for part in slices(longer_is_higher, "difficulty")) == len(items)
    assert sum(part.n for part in slices(longer_is_higher, "turns")) == len(items)


def test_length_alone_shows_as_an_effect_of_need_until_it_is_adjusted_for(longer_is_higher):
    effects = need_effects(longer_is_higher)
    assert effects.raw.value > 0.1 and effects.within_config.value > 0.1
    assert effects.adjusted.value == pytest.approx(0, abs=1e-9)


def test_a_cost_of_unsaid_needs_is_recovered():
    def lower_if_unsaid(items):
        unsaid = items["need"].isin(["implicit", "evolving"])
        return 0.3 + 0.02 * np.log(items["reference_words"]) - 0.05 * unsaid

    effects = need_effects(scores_of(lower_if_unsaid))
    assert effects.adjusted.value == pytest.approx(-5.0, abs=1e-6)
    assert effects.adjusted.p < 0.001


def test_scores_of_other_kinds_can_be_sliced(longer_is_higher):
    j = pd.Series(np.nan, index=longer_is_higher.items.index)
    j[:10] = 4.0
    parts = slices(longer_is_higher, "need", j, bounds=(0, 5))
    assert sum(part.n for part in parts) == 10
    assert {part.score.value for part in parts} == {4.0}


def test_runs_without_labels_have_no_slices(longer_is_higher):
    bare = longer_is_higher.items.drop(columns=["need", "difficulty", "emotion", "turns", "reference_words"])
    old = RunScores(bare, {}, {})
    assert slices(old, "need") == [] and need_effects(old) is None
    one = RunScores(longer_is_higher.items[longer_is_higher.items["relationship"] == "en-001"], {}, {})
    assert need_effects(one) is None
    assert not slices(one, "need")[0].score.defined


def test_an_unknown_need_is_a_slice_of_its_own_and_an_unknown_factor_is_refused(longer_is_higher):
    items = longer_is_higher.items.assign(need="unheard of")
    assert [part.level for part in slices(RunScores(items, {}, {}), "need")] == ["unheard of"]
    assert need_effects(RunScores(items, {}, {})) is None
    with pytest.raises(H2HTalkError, match="unknown factor 'mood'; the factors are: need, difficulty, turns, emotion"):
        slices(longer_is_higher, "mood")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Runs over 24 records of two configs; the second leaves out more words."""
    folder, tasks = tmp_path_factory.mktemp("compare"), "DialogueBase,DialogueSchedule"
    return [make_run(folder / str(share), "org/Model", tasks=tasks, limit=12, share=share) for share in (0.9, 0.5)]


def test_runs_are_compared_at_every_level(two_runs):
    tests = compare_slices(*two_runs)
    assert {factor for factor, _ in tests} == set(FACTORS)
    first, second = (read_scores(folder).items for folder in two_runs)
    chosen = first["need"] == "implicit"
    test = tests["need", "implicit"]
    assert test.items == chosen.sum()
    assert test.difference == pytest.approx(100 * (first["composite"] - second["composite"])[chosen].mean())
    of_need = [test for (factor, _), test in tests.items() if factor == "need"]
    assert [test.p_holm for test in of_need] == pytest.approx(holm([test.p for test in of_need]))


def test_need_effects_of_two_runs_are_subtracted(two_runs):
    effects = [need_effects(read_scores(folder)) for folder in two_runs]
    difference = compare_need(*two_runs)
    assert difference.raw.value == pytest.approx(effects[0].raw.value - effects[1].raw.value)
    assert difference.adjusted.value == pytest.approx(effects[0].adjusted.value - effects[1].adjusted.value)


def test_tables_of_slices_show_each_level_and_need_columns(two_runs):
    tables = slice_comparison(compare_slices(*two_runs), compare_need(*two_runs))
    levels = [row.cells[:2] for row in tables[0].rows]
    assert ("need", "implicit") in levels and ("turns", "1") in levels
    assert len(tables) == 2
    assert slice_comparison({}, None) == []
