"""Known distortions of good answers, and how S and the fact check react."""

import pytest
from helpers.board_runs import HashedWords

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.loading import records_of
from h2htalk_metric.metrics.distortions import DISTORTIONS, another_reference, falsified
from h2htalk_metric.metrics.sensitivity import ALL, measure_fact_check, sensitivity
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.reports.markdown import markdown
from h2htalk_metric.reports.sensitivity_tables import fact_check_section, sensitivity_section


@pytest.fixture(scope="module")
def pool():
    return [{**record, "alternatives": [record["reference"]]} for record in records_of("DialogueBase")[::40]]


@pytest.fixture(scope="module")
def reactions(pool):
    """The good answers are the references themselves, so S of the unchanged ones is known."""
    return sensitivity(pool, Embedder("hashed-words", HashedWords().encode), pool)


def test_falsified_answers_have_other_names_times_days_and_numbers():
    record = {"companion": "Ilse"}
    text = "Ilse saw Marek at 19:45 on Monday with 12 hens and three geese, one of them mine."
    assert (
        falsified(text, record)
        == "Ilse saw Bertram at 00:45 on Wednesday with 19 hens and eight geese, one of them mine."
    )
    assert falsified("I am so sorry.", record) is None


def test_another_reference_is_of_another_relationship(pool):
    record = pool[0]
    other = another_reference(record, pool)
    assert other == another_reference(record, pool)
    assert other in [one["reference"] for one in pool if one["relationship"] != record["relationship"]]


def test_every_distortion_lowers_s(reactions, pool):
    overall = {one.distortion: one for one in reactions if one.group == ALL}
    assert set(overall) == {*DISTORTIONS, "another record's reference"}
    assert overall["generic warm tail"].n == len(pool)
    for one in overall.values():
        assert one.original > 95  # short references lack four-grams
        assert one.distorted < one.original
        assert one.difference.value == pytest.approx(one.distorted - one.original)
        assert sum(one.components) / 7 == pytest.approx(one.difference.value)
    assert overall["generic warm tail"].difference.value > overall["constant"].difference.value


def test_fact_check_on_references(pool):
    by_kinds = {one.kinds: one for one in measure_fact_check(pool)}
    names_and_times = by_kinds["name or time"]
    assert names_and_times.unchanged == len(pool) > names_and_times.falsified > 0
    assert names_and_times.precision == 1.0 and 0 < names_and_times.recall < 1


def test_tables_name_each_distortion_and_config(reactions, pool):
    text = markdown("T", [sensitivity_section(reactions), fact_check_section(measure_fact_check(pool))])
    assert "| falsified facts |" in text and "### echo, per config" in text and "| DialogueBase |" in text
    assert "| name or time |" in text


def test_without_second_references_it_says_what_to_do(pool):
    bare = [{**record, "alternatives": []} for record in pool]
    with pytest.raises(H2HTalkError, match="no record has a second reference; use version 2.0.0"):
        sensitivity(bare, "demo", bare)
