"""Equal numbers, times and dates are equal, however they are written."""

import pytest

from h2htalk_datasets.memory.patterns import contains, normalize


def matches(text, form):
    return bool(contains(normalize(text), form))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("half past six", "6:30 pm"),
        ("half past six", "18:30"),
        ("quarter to six", "5.45"),
        ("ten past four", "16:10"),
        ("six o'clock", "6 p.m."),
        ("six p.m.", "18:00"),
        ("six fifteen", "6:15"),
        ("two thirty-five", "14:35"),
        ("the thirty-first of January", "the January 31"),
        ("the twenty-second of May", "the May 22nd"),
        ("a hundred and ten thousand", "a 110,000"),
        ("16.400 pesos", "16,400 pesos"),
        ("seventeen hundred and forty", "1,740"),
        ("twenty-five to six", "17:35"),
        ("Oct. 12", "12 October"),
        ("1.8 kilos", "1.8 kilo"),
        ("ten minutes past one", "1:10"),
        ("five minutes after nine", "9:05"),
        ("61½ thousand", "sixty-one and a half thousand"),
        ("noon", "12:00"),
        ("the 12th of March", "the March 12"),
        ("the twenty-third of May", "the 23 May"),
        ("2026-03-12", "12th March"),
        ("Thurs 5 Sept", "Thursday, September 5"),
        ("two hundred and forty", "240"),
        ("six thousand and twenty-one", "6,021"),
        ("a thousand and forty", "a 1,040"),
        ("€1,200", "one thousand two hundred"),
        ("Anna’s boxes", "anna box"),
        ("Twenty-one eggs", "21 egg"),
        ("the first of May", "the May 1st"),
        ("the first day of May", "the May 1st"),
    ],
)
def test_two_ways_of_writing_are_one(one, other):
    assert normalize(one) == normalize(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("6:30", "6:15"),
        ("12 March", "13 March"),
        ("21", "20 1"),
        ("the first", "the one"),
        ("he sat", "Saturday"),
        ("1.8", "18"),
        ("no. 4", "4"),
        ("from ten to five", "from 4:50"),
        ("three to five", "4:57"),
        ("two after nine", "9:02"),
        ("room two fourteen", "room 2:14"),
        ("six, fifteen of us", "6:15 of us"),
    ],
)
def test_different_values_stay_different(one, other):
    assert normalize(one) != normalize(other)


def test_a_form_matches_words_in_a_row_beginnings_and_gaps():
    assert matches("She works nights at the nursing home.", "nurs*")
    assert matches("It moved to next Thursday, at quarter past ten.", "thursday ... 10:15")
    assert not matches("It moved to Thursday. The bus leaves at 10:15.", "thursday ... 10:15")  # another sentence
    assert not matches("Thursday and one two other third many more words later at 10:15", "thursday ... 10:15")
    assert not matches("a nurse", "nursing")
    assert contains(normalize("No, no."), "no") == [0, 2]  # "No," is a sentence of its own


@pytest.mark.parametrize(
    "text", ["", "…", "25:99", "99 of 12", "half past", "hundred", "1,2,3", "💛 ok", "10:5", "March"]
)
def test_odd_texts_are_no_error(text):
    assert isinstance(normalize(text), list)
    assert not matches(text, "something else")
