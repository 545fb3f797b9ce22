"""Slices by need, difficulty and turns, and the effect of a need that is not said aloud."""

import numpy as np
import pandas as pd
import pytest

from h2htalk_datasets import load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.runs.scoring import RunScores, score_answers
from h2htalk_metric.runs.slices import need_effects, slices


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
