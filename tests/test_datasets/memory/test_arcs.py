"""The shipped arcs, and what their rules find."""

import copy

import pytest
import yaml

from h2htalk_datasets import loading
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.memory import schema
from h2htalk_datasets.memory.checks import arc_problems, check_arcs
from h2htalk_datasets.memory.schema import FAMILIES, Arc, read_arc, read_arcs
from h2htalk_datasets.memory.verdicts import verdict


@pytest.fixture(scope="module")
def arcs():
    return read_arcs()


@pytest.fixture
def source():
    """The source of the first arc, to break."""
    file = sorted((schema.SOURCES / "en" / "arcs").glob("*.yaml"))[0]
    return yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)


def test_all_arcs_keep_the_rules(arcs):
    assert [check.offenders for check in check_arcs(arcs) if not check.passed] == []


def test_the_dataset_has_the_questions_of_the_sources(arcs):
    rows = loading.load_memory().to_list()
    assert len(rows) == sum(len(arc.questions) for arc in arcs)
    by_id = {row["id"]: row for row in rows}
    for arc in arcs:
        for question in arc.questions:
            row = by_id[f"en-{arc.relationship[:2]}-memory-{question.id}"]
            assert row["message"] == question.message
            assert [session["id"] for session in row["sessions"]][-1] == question.after
            assert bool(row["evidence"]) == (question.family != "abstention")
            assert verdict(row, row["reference"]) == "right"


def test_families_are_balanced(arcs):
    counts = [sum(question.family == family for arc in arcs for question in arc.questions) for family in FAMILIES]
    assert max(counts) <= 2 * min(counts)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda arc: arc["questions"].pop(), "questions: "),
        (lambda arc: arc["questions"][0].update(reference="Who knows."), "the verdict on its reference is"),
        (lambda arc: arc["questions"][0].update(date=arc["sessions"][0]["date"], after="s5"), "before s5"),
        (lambda arc: arc["sessions"][0]["turns"].__setitem__(0, {"user": "word " * 2500}), "sessions: "),
    ],
)
def test_a_broken_rule_is_named(source, change, problem):
    change(source)
    assert any(problem in line for line in arc_problems(Arc.model_validate(source)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda arc: arc["sessions"][0]["turns"].pop(), "take turns"),
        (lambda arc: arc["ledger"][0].update(said=[]), "either `said` or `never_said"),
        (lambda arc: arc["ledger"][0]["said"][0].update(turn=99), "there is no turn 99"),
        (lambda arc: arc["questions"][0].update(facts=["f99"]), "must name a session"),
        (lambda arc: arc["questions"][1].update(id=arc["questions"][0]["id"]), "occur twice"),
        (lambda arc: arc["sessions"][1].update(date=arc["sessions"][0]["date"]), "later day"),
        (lambda arc: arc["questions"][0].update(family="riddle"), "family"),
    ],
)
def test_a_violation_of_the_schema_is_one_line_with_the_file(source, tmp_path, change, problem):
    broken = copy.deepcopy(source)
    change(broken)
    (tmp_path / "01-broken.yaml").write_text(yaml.safe_dump(broken), "utf-8")
    with pytest.raises(H2HTalkError, match=rf"01-broken.yaml: .*{problem}"):
        read_arc(tmp_path / "01-broken.yaml")
