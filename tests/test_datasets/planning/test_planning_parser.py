"""Plans in the forms in which models write them."""

import pytest
from helpers.planning_scenarios import scenarios

from h2htalk_datasets.planning import parse_plan
from h2htalk_datasets.planning.problem import plan_text

PROBLEM = scenarios()["rhys-payday-week"].problem(1)  # Monday to Friday
WALK, GROUP = "walk with Gravy", "group at Baglan"


def read(text):
    """Times by label."""
    parsed = parse_plan(text, PROBLEM)
    return {label: PROBLEM.calendar.text(entry.span) for label, entry in parsed.entries.items()}


@pytest.mark.parametrize(
    "line",
    [
        "Tue 17:30-18:30 walk with Gravy",
        "Tuesday 17:30-18:30 walk with Gravy",
        "tues 17:30 - 18:30: Walk with gravy.",
        "- Tue 17:30–18:30 walk with Gravy",
        "* **Tue 17:30—18:30** walk with Gravy",
        "3. Tue, 17:30 to 18:30, walk with Gravy",
        "Tue 31 March 17:30-18:30 walk with Gravy",
        "Tuesday, 31st of March, 17:30-18:30 walk with Gravy",
        "Tuesday (31 March): 17:30-18:30 – walk with Gravy",
        "Tue March 31 17:30-18:30 walk with Gravy",
        "Tue 5:30 pm - 6:30 pm walk with Gravy",
        "Tue 5:30-6:30pm walk with Gravy",
        "Tue 5.30 p.m.–6.30 p.m. walk with Gravy",
        "| Tue | 17:30-18:30 | walk with Gravy (Gareth and Rhys) |",
        "Tue 17.30-18.30 the walk with Gravy on the beach",
        "Tue from 17:30 until 18:30 `walk with Gravy`",
        "Gareth: Tue 17:30-18:30 walk with Gravy",
        "**Tuesday**\n- 17:30-18:30 walk with Gravy",
        "## Tuesday 31 March\n17:30-18:30 walk with Gravy",
    ],
)
def test_a_line_is_read_in_many_forms(line):
    assert read(line) == {WALK: "Tue 17:30-18:30"}


def test_noon_and_midnight_in_twelve_hours():
    assert read("Mon 11-1 pm walk with Gravy") == {WALK: "Mon 11:00-13:00"}
    assert read("Mon 12 pm-1 pm walk with Gravy") == {WALK: "Mon 12:00-13:00"}
    assert read("Mon 23:00-00:00 walk with Gravy") == {WALK: "Mon 23:00-00:00"}
    assert parse_plan("Mon 23:00-00:00 walk with Gravy", PROBLEM).entries[WALK].span == (23 * 60, 24 * 60)


def test_a_label_that_is_part_of_another_is_not_confused():
    problem = scenarios()["rhys-payday-week"].problem(2)
    parsed = parse_plan("Tue 17:30-18:30 walk with Gravy\nFri 17:00-18:00 second walk with Gravy", problem)
    assert set(parsed.entries) == {WALK, "second walk with Gravy"}
    assert problem.calendar.text(parsed.entries["second walk with Gravy"].span) == "Fri 17:00-18:00"


def test_unknown_lines_are_counted_and_ignored():
    parsed = parse_plan("Here is the plan:\nTue 17:30-18:30 tea with Clive\nTue 17:30-18:30 walk with Gravy\n", PROBLEM)
    assert set(parsed.entries) == {WALK}
    assert parsed.unknown == ["Tue 17:30-18:30 tea with Clive"]
    assert parsed.unreadable == []


@pytest.mark.parametrize(
    "line",
    [
        "walk with Gravy some time on Tuesday",
        "Sun 17:30-18:30 walk with Gravy",  # the plan ends on Friday
        "Tue 25:00-26:00 walk with Gravy",
        "Tue 17:75-18:30 walk with Gravy",
        "17:30-18:30 walk with Gravy",
    ],
)
def test_an_activity_without_a_readable_time_is_counted(line):
    parsed = parse_plan(line, PROBLEM)
    assert not parsed.parsed
    assert parsed.unreadable == [line]


def test_the_first_of_two_entries_counts_and_the_label_is_reported():
    parsed = parse_plan(
        "Tue 17:30-18:30 walk with Gravy\nTue 17:30-18:30 walk with Gravy\nMon 19:30-21:00 group at Baglan\n"
        "Wed 19:30-21:00 group at Baglan",
        PROBLEM,
    )
    assert parsed.repeated == [GROUP]
    assert PROBLEM.calendar.text(parsed.entries[GROUP].span) == "Mon 19:30-21:00"


@pytest.mark.parametrize("text", ["", "I am sorry, I cannot plan that.", "Tue\nWed\nThu", "***", "- " * 10_000])
def test_text_without_a_plan_is_not_parsed(text):
    assert not parse_plan(text, PROBLEM).parsed


def test_every_shipped_plan_reads_back():
    for scenario in scenarios().values():
        for turn in (1, 2):
            problem, plan = scenario.problem(turn), scenario.shipped_plan(turn)
            parsed = parse_plan(plan_text(problem, plan), problem)
            assert parsed.entries == plan
            assert not (parsed.unknown or parsed.unreadable or parsed.repeated)
