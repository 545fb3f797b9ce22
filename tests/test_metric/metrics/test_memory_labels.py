import pytest

from h2htalk_metric.metrics.memory_labels import contents, label_agreement

ONE = "Memory Content: Ana swims every Monday.\nMemory Category: Hobbies\nMemory Importance: 2"
TWO = "Memory Content: Ana has a brother in Lima.\nMemory Category: Relationships\nMemory Importance: 2"


def test_contents_have_no_labels():
    assert contents(f"{ONE}\n\n{TWO}") == "Ana swims every Monday.\nAna has a brother in Lima."
    assert contents("No key information extracted.") == "No key information extracted."


def test_labels_are_compared_over_matched_memories():
    prediction = f"{TWO.replace(': 2', ': 0')}\n\n{ONE.replace('Hobbies', 'Food')}"
    assert label_agreement(prediction, f"{ONE}\n\n{TWO}") == (0.5, 1.0)
    assert label_agreement(ONE, f"{ONE}\n\n{TWO}") == (0.5, 0.0)  # a missing memory agrees on nothing


@pytest.mark.parametrize("text", ["No key information extracted.", "nonsense"])
def test_nothing_to_compare_is_none(text):
    assert label_agreement(text, ONE) is None
