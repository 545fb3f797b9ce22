import random
import re

import pytest

from h2htalk_datasets.answer_format import (
    FactMemory,
    TimedLine,
    format_error,
    parse_day,
    parse_memories,
    parse_steps,
    strip_scaffold,
)

DAY = "07:00 Wake\n09:00 Work\n13:00 Eat\n18:00 Walk\n22:00 Sleep"
STEPS = "1. 14:00 She sits.\n2. 14:20 She pours.\n3. 15:00 She drinks."
MEMORY = "Memory Content: Ana swims.\nMemory Category: Hobbies\nMemory Importance: 2"


def of(records, task):
    return next(record for record in records if record.task == task)


def test_a_day_is_parsed():
    assert parse_day(DAY + "\n\n(She meant it.)")[-1] == TimedLine(22 * 60, "Sleep")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DAY.replace("09:00", "9:00"), "not a line"),
        (DAY.replace("09:00", "06:00"), "ascend"),
        (DAY.replace("22:00", "19:00"), "sleep"),
        (DAY.replace("Sleep", "Bed"), "sleep"),
        ("07:00 Wake\n22:00 Sleep", "expected 5 to 8"),
        ("", "expected 5 to 8"),
    ],
)
def test_a_malformed_day_is_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        parse_day(text)


def test_steps_are_parsed_within_their_slot():
    assert len(parse_steps(STEPS, start=14 * 60, end=15 * 60)) == 3


@pytest.mark.parametrize(
    ("text", "slot", "message"),
    [
        (STEPS.replace("2.", "4."), {}, "not step 2"),
        (STEPS, {"start": 13 * 60}, "slot's time"),
        (STEPS, {"end": 14 * 60 + 30}, "after the next activity"),
        ("1. 14:00 She sits.", {}, "expected 3 to 5"),
    ],
)
def test_malformed_steps_are_an_error(text, slot, message):
    with pytest.raises(ValueError, match=message):
        parse_steps(text, **slot)


def test_memories_are_parsed():
    assert parse_memories(MEMORY + "\n\n" + MEMORY.replace("swims", "rows")) == [
        FactMemory("Ana swims.", "Hobbies", 2),
        FactMemory("Ana rows.", "Hobbies", 2),
    ]
    assert parse_memories("No key information extracted.") == []


@pytest.mark.parametrize(
    "change", [("Hobbies", "Sport"), (": 2", ": 3"), ("Memory Content", "Content"), ("\nMemory Importance: 2", "")]
)
def test_malformed_memories_are_an_error(change):
    with pytest.raises(ValueError, match="Memory|memory"):
        parse_memories(MEMORY.replace(*change))


def test_scaffold_is_removed():
    assert strip_scaffold(STEPS) == "She sits.\nShe pours.\nShe drinks."
    assert strip_scaffold(MEMORY) == "Ana swims."


@pytest.mark.parametrize(
    ("task", "text", "error"),
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
def test_a_format_error_is_named(records, task, text, error):
    assert error in format_error(of(records, task), text)


@pytest.mark.parametrize("sign", ["—", "-", "❤️", "🎉", "...", "*"])
def test_only_words_count_towards_the_limit(records, sign):
    assert format_error(of(records, "DialogueBase"), f"word {sign} " * 40) is None


@pytest.mark.parametrize(
    "text", ["Of course I'll wait for you!😊", "我也想你。", "It is 3.5 km, e.g. to the sea.", "On my way ❤️", "Ok :)"]
)
def test_one_or_two_sentences_in_any_style(records, text):
    assert format_error(of(records, "ItineraryResponse"), text) is None


def test_every_reference_follows_its_format(records):
    assert not [record.id for record in records if format_error(record, record.reference)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("task", "hostile"),
    [
        ("ItineraryResponse", lambda n: "." * n + "x"),
        ("ItineraryResponse", lambda n: "…" * n + "x"),
        ("ItineraryBasic", lambda n: "x" + "\n" * n + "y"),
    ],
)
def test_a_hostile_answer_takes_linear_time(records, task, hostile):
    """A pattern that backtracks would need six minutes here; the test's time limit ends it."""
    assert format_error(of(records, task), hostile(200_000)) is None


def test_the_linear_patterns_agree_with_the_plain_ones(records):
    """The rules as one would first write them, over references with random signs and line breaks inserted."""
    ends, listed = (
        r"[.!?…]+(?=\s|$|[\"'’”)*]|(?![–—…])[^\x00-\x7f\w])",
        re.compile(r"^\s*(?:[-*•]|\d+[.)])\s", re.MULTILINE),
    )
    signs = ["\n", " \n\t", "\n- ", "1. ", "...", "?! ", '."', "* x\r\n", "\u2028• "]
    reply, basic, rng = of(records, "ItineraryResponse"), of(records, "ItineraryBasic"), random.Random(0)
    for record in records:
        tokens = record.reference.split(" ")[:20]  # within the word limits, so that only the patterns decide
        for _ in range(4):
            text = " ".join(tokens)
            unfinished = bool(re.search(r"\w", re.split(ends, text)[-1]))
            assert (format_error(reply, text) is None) == (len(re.findall(ends, text)) + unfinished <= 2)
            assert (format_error(basic, text) is None) == (listed.search(text) is None)
            tokens.insert(rng.randrange(len(tokens) + 1), rng.choice(signs))
