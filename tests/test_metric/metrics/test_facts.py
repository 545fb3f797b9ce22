"""The fact check: what it reads from texts, and what it flags."""

import pytest

from h2htalk_metric.metrics.facts import contradictions, facts_of


def record(prompt, reference, task="DialogueBase"):
    return {"task": task, "messages": [{"role": "user", "content": prompt}], "reference": reference}


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("The bus is at 19:45.", [465]),
        ("Come at half past seven.", [450]),
        ("Come at half seven.", [450]),
        ("It's a quarter to nine.", [525]),
        ("At nine, then.", [540]),
        ("Ring me at nine o'clock or 10 pm.", [540, 600]),
        ("I have nine cats at home.", []),
        ("Five times she asked, by five different people.", []),
        ("Midnight is 00:00, noon is 12:00.", [0]),
    ],
)
def test_clock_times_in_digits_and_words(text, minutes):
    assert sorted(facts_of(text).time) == minutes


def test_names_are_capitalised_words_inside_sentences():
    text = (
        "Loud it was. Then Marek's bus came, and I said: Run. Marek laughed. It was Monday, in May, near St Elizabeth."
    )
    assert set(facts_of(text).name) == {"marek", "st", "elizabeth"}
    assert set(facts_of(text).day) == {"monday"}


def test_numbers_in_digits_and_words():
    assert set(facts_of("She has twenty-five hens, 1,250 eggs and two geese, and I owe her forty.").number) == {
        "25",
        "1250",
        "40",
    }


def test_a_name_that_the_prompt_lacks_is_flagged():
    example = record("Zuzana: My sister Hana rang.", "What did Hana want?")
    assert contradictions("What did Hana want?", example) == {}
    assert contradictions("And what did Petra want?", example) == {"name": ["Petra"]}
    assert contradictions("Was it Hana's idea, Zuzana?", example) == {}


def test_another_time_is_flagged_only_in_place_of_the_prompts():
    example = record("Ola: The train leaves at 7:10.", "At 7:10, then. I'll ring you.")
    assert contradictions("At 8:10, then.", example) == {"time": ["8:10"]}
    assert contradictions("At 7:10, then. Ring me at 8:10.", example) == {}
    assert contradictions("Leave early.", example) == {}
    not_used = record("Ola: The train leaves at 7:10.", "Take a coat.")
    assert contradictions("I'll be there at 8:10.", not_used) == {}


def test_days_and_numbers_follow_the_same_rule():
    example = record("Ola: On Friday I turn fifty.", "Fifty on Friday! Shall we dance?")
    assert contradictions("Sixty on Sunday! Shall we dance?", example) == {"day": ["Sunday"], "number": ["Sixty"]}


def test_tasks_that_invent_a_day_are_checked_for_names_only():
    example = record("Outline: 08:00 baker Ilse", "08:00 Ilse sells bread", task="ItineraryMiddle")
    assert contradictions("09:30 she sees Horst", example) == {"name": ["Horst"]}
