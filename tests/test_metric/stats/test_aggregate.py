import csv

import pytest
from helpers.paths import TEST_DATA

from h2htalk_datasets import TASKS
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric import aggregate

with (TEST_DATA / "paper_table2.csv").open() as _file:
    PAPER = list(csv.DictReader(_file))


def test_all_legible_rows_are_there():
    assert len(PAPER) == 35


@pytest.mark.parametrize("row", PAPER, ids=[row["model"] for row in PAPER])
def test_the_papers_rows_are_reproduced(row):
    ours = aggregate({task: float(row[task]) for task in TASKS})
    for average in ("DialogueAvg", "ItineraryAvg", "RecollectionAvg"):
        assert ours[average] == pytest.approx(float(row[average]), abs=0.011)
    assert ours["Overall"] == pytest.approx(float(row["Overall"]), abs=0.15)


def test_a_missing_config_leaves_gaps_and_no_invented_figures():
    row = aggregate({task: 50.0 for task in TASKS if task != "DialogueEmotion"})
    assert row["DialogueEmotion"] is row["DialogueAvg"] is row["Overall"] is None
    assert row["ItineraryAvg"] == 50.0


def test_an_unknown_config_is_named():
    with pytest.raises(H2HTalkError, match="unknown task 'Dialogue'"):
        aggregate({"Dialogue": 1.0})
