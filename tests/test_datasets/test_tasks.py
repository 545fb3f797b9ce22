import csv

import pytest
from helpers.paths import TEST_DATA

from h2htalk_datasets import TASKS
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import DIMENSIONS, select_tasks


def test_table_1_of_the_paper():
    with (TEST_DATA / "paper_table1.csv").open() as file:
        paper = {row["config"]: (row["dimension"], int(row["count"])) for row in csv.DictReader(file)}
    assert {task.name: (task.dimension, task.count) for task in TASKS.values()} == paper
    assert sum(task.count for task in TASKS.values()) == 4650
    assert {task.dimension for task in TASKS.values()} == set(DIMENSIONS)


def test_three_tasks_are_judged():
    assert [task.name for task in TASKS.values() if task.judged] == [
        "ItineraryBasic",
        "ItineraryMiddle",
        "ItineraryAdvanced",
    ]


@pytest.mark.parametrize(
    "names", ["ItineraryMiddle,DialogueBase", ["ItineraryMiddle", "DialogueBase"], " DialogueBase , ItineraryMiddle,"]
)
def test_selected_tasks_have_the_order_of_the_table(names):
    assert [task.name for task in select_tasks(names)] == ["DialogueBase", "ItineraryMiddle"]


def test_an_unknown_task_lists_all_and_suggests_the_nearest():
    with pytest.raises(H2HTalkError) as error:
        select_tasks("ItineraryMidle")
    assert "Did you mean ItineraryMiddle?" in str(error.value)
    assert all(name in str(error.value) for name in TASKS)


def test_no_task_is_an_error():
    with pytest.raises(H2HTalkError, match="no task named"):
        select_tasks(",")
