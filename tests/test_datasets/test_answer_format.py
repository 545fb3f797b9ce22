import pytest

from h2htalk_datasets.answer_format import FactMemory, TimedLine, parse_day, parse_memories, parse_steps, strip_scaffold

DAY = "07:00 Wake\n09:00 Work\n13:00 Eat\n18:00 Walk\n22:00 Sleep"
STEPS = "1. 14:00 She sits.\n2. 14:20 She pours.\n3. 15:00 She drinks."


def test_a_day_is_read():
    assert parse_day(DAY + "\n\n(She meant it.)")[-1] == TimedLine(22 * 60, "Sleep")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (DAY.replace("09:00", "9:00"), "not a line"),
        (DAY.replace("09:00", "06:00"), "ascend"),
        (DAY.replace("22:00", "19:00"), "sleep"),
        (DAY.replace("Sleep", "Bed"), "sleep"),
        ("07:00 Wake\n22:00 Sleep", "expected 5 to 8"),
        ("", "expected 5 to 8"),
    ],
)
def test_a_broken_day_says_where(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse_day(text)


def test_steps_are_read_within_their_slot():
    assert len(parse_steps(STEPS, start=14 * 60, end=15 * 60)) == 3


@pytest.mark.parametrize(
    ("text", "slot", "complaint"),
    [
        (STEPS.replace("2.", "4."), {}, "not step 2"),
        (STEPS, {"start": 13 * 60}, "slot's time"),
        (STEPS, {"end": 14 * 60 + 30}, "after the next activity"),
        ("1. 14:00 She sits.", {}, "expected 3 to 5"),
    ],
)
def test_broken_steps_say_where(text, slot, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse_steps(text, **slot)


def test_memories_are_read():
    text = "Memory Content: Ana swims.\nMemory Category: Hobbies\nMemory Importance: 2"
    assert parse_memories(text + "\n\n" + text.replace("swims", "rows")) == [
        FactMemory("Ana swims.", "Hobbies", 2),
        FactMemory("Ana rows.", "Hobbies", 2),
    ]
    assert parse_memories("No key information extracted.") == []


@pytest.mark.parametrize(
    "fault", [("Hobbies", "Sport"), (": 2", ": 3"), ("Memory Content", "Content"), ("\nMemory Importance: 2", "")]
)
def test_broken_memories_are_refused(fault):
    text = "Memory Content: Ana swims.\nMemory Category: Hobbies\nMemory Importance: 2"
    with pytest.raises(ValueError, match="Memory|memory"):
        parse_memories(text.replace(*fault))


def test_scaffold_comes_off():
    assert strip_scaffold(STEPS) == "She sits.\nShe pours.\nShe drinks."
    assert strip_scaffold("Memory Content: Ana swims.\nMemory Category: Hobbies\nMemory Importance: 2") == "Ana swims."
