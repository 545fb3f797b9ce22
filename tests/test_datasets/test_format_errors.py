import random
import re

import pytest

from h2htalk_datasets.answer_format import contract_fault
from h2htalk_metric.metrics.memory_labels import contents, label_agreement

ONE = "Memory Content: Ana swims every Monday.\nMemory Category: Hobbies\nMemory Importance: 2"
TWO = "Memory Content: Ana has a brother in Lima.\nMemory Category: Relationships\nMemory Importance: 2"


def of(records, task):
    return next(record for record in records if record.task == task)


@pytest.mark.parametrize(
    ("task", "text", "fault"),
    [
        ("DialogueBase", "word " * 41, "41 words"),
        ("DialogueBase", "我也想你。" * 11, "44 words"),
        ("DialogueBase", "  ", "empty"),
        ("ItineraryMiddle", "08:00 Wake up", "expected 5 to 8"),
        ("ItineraryAdvanced", "1. 03:00 a\n2. 03:10 b\n3. 03:20 c", "slot's time"),
        ("RecollectionSynthesis", "- Ana swims", "not the three lines"),
        ("ItineraryResponse", "One. Two. Three", "more than two sentences"),
        ("ItineraryResponse", "One. Two. Three.", "more than two sentences"),
        ("ItineraryResponse", "One!😊 Two.🎉 Three…", "more than two sentences"),
        ("ItineraryResponse", "我也想你。真的。你呢？", "more than two sentences"),
        ("ItineraryBasic", "1. They walk.\n2. They eat.", "a list"),
    ],
)
def test_a_broken_contract_is_named(records, task, text, fault):
    assert fault in contract_fault(of(records, task), text)


@pytest.mark.parametrize(
    "text", ["Of course I'll wait for you!😊", "我也想你。", "It is 3.5 km, e.g. to the sea.", "On my way ❤️", "Ok :)"]
)
def test_one_or_two_sentences_in_any_hand(records, text):
    assert contract_fault(of(records, "ItineraryResponse"), text) is None


def test_every_reference_keeps_its_contract(records):
    assert not [record.id for record in records if contract_fault(record, record.reference)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("task", "hostile", "fault"),
    [
        ("ItineraryResponse", lambda n: "." * n + "x", None),
        ("ItineraryResponse", lambda n: "…" * n + "x", None),
        ("ItineraryBasic", lambda n: "x" + "\n" * n + "y", None),
    ],
)
def test_a_hostile_answer_is_read_to_its_end(records, task, hostile, fault):
    """A pattern that looks back over what it has read would need six minutes here; the test's time limit ends it."""
    assert contract_fault(of(records, task), hostile(200_000)) == fault


def test_the_linear_patterns_find_what_the_plain_ones_find(records):
    """The rules as one would first write them, over references in which signs and breaks are sprinkled."""
    ends, listed = (
        r"[.!?…]+(?=\s|$|[\"'’”)*]|(?![–—…])[^\x00-\x7f\w])",
        re.compile(r"^\s*(?:[-*•]|\d+[.)])\s", re.MULTILINE),
    )
    signs = ["\n", " \n\t", "\n- ", "1. ", "...", "?! ", '."', "* x\r\n", "\u2028• "]
    reply, basic, draw = of(records, "ItineraryResponse"), of(records, "ItineraryBasic"), random.Random(0)
    for record in records:
        words = record.reference.split(" ")[:20]  # within the tasks' limits, so that only the patterns speak
        for _ in range(4):
            text = " ".join(words)
            unended = bool(re.search(r"\w", re.split(ends, text)[-1]))
            assert (contract_fault(reply, text) is None) == (len(re.findall(ends, text)) + unended <= 2)
            assert (contract_fault(basic, text) is None) == (listed.search(text) is None)
            words.insert(draw.randrange(len(words) + 1), draw.choice(signs))


def test_contents_lose_their_labels():
    assert contents(f"{ONE}\n\n{TWO}") == "Ana swims every Monday.\nAna has a brother in Lima."
    assert contents("No key information extracted.") == "No key information extracted."


def test_labels_are_compared_over_matched_memories():
    given = f"{TWO.replace(': 2', ': 0')}\n\n{ONE.replace('Hobbies', 'Food')}"
    assert label_agreement(given, f"{ONE}\n\n{TWO}") == (0.5, 1.0)
    assert label_agreement(ONE, f"{ONE}\n\n{TWO}") == (0.5, 0.0)  # a memory that is missing agrees on nothing


@pytest.mark.parametrize("text", ["No key information extracted.", "nonsense"])
def test_nothing_to_compare_is_none(text):
    assert label_agreement(text, ONE) is None
