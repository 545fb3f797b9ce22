"""The verdict on an answer, by hand-made answers of every kind."""

import pytest

from h2htalk_datasets.memory.verdicts import verdict


def question(family="recall", **forms):
    empty = {"accept": [], "stale": [], "reject": [], "abstain": []}
    return {"family": family, "message": "When is it again, my scan?", **empty, **forms}


MOVED = question("update", accept=[["thursday", "9 july"]], stale=["tuesday", "7 july"])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Thursday the ninth, love.", "right"),
        ("On the 9th of July.", "right"),
        ("Thursday, not Tuesday any more.", "right"),
        ("They asked for Tuesday and got Thursday.", "right"),
        ("It was Tuesday, and they moved it to Thursday.", "right"),
        ("Tuesdays were the old roster, you have Thursday.", "right"),
        ("Thursday. It should have been Tuesday.", "right"),
        ("No, Tuesday.", "stale"),
        ("Tuesday, as far as I know.", "stale"),
        ("It was on Tuesday.", "stale"),
        ("Tuesday or Thursday.", "stale"),
        ("It's either the Wednesday or the Thursday.", "evaded"),
        ("Thursday, or was it Friday?", "evaded"),
        ("Thursday, or else that other day.", "evaded"),
        ("It could be Thursday, it could be Friday.", "evaded"),
        ("Either Thursday, before lunch, or some other time.", "evaded"),
        ("First they said Wednesday, then Thursday. Ask them which one counts.", "evaded"),
        ("Thursday or Friday, who knows. No, wait. It's Thursday.", "right"),
        ("Thursday, or the ninth of July if you want the date.", "right"),
        ("Thursday, or ask the clinic.", "right"),
        ("Friday at ten.", "wrong"),
        ("I don't remember, sorry.", "abstained"),
        ("You never told me.", "abstained"),
        ("Oh, big day then! Shall we breathe together?", "evaded"),
        ("", "evaded"),
    ],
)
def test_an_update(answer, expected):
    assert verdict(MOVED, answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("You never told me his name.", "right"),
        ("I don't know that one.", "right"),
        ("That name hasn't reached me, the drawer for it is empty.", "right"),
        ("What he is called you kept to yourself.", "right"),
        ("He is called Bruno, isn't he?", "invented"),
        ("I think it was Rex, though I'm not sure.", "invented"),
        ("I don't think you ever told me. If I had to say something, the small brown one.", "invented"),
        ("You haven't told me. I'd say Bello, that fits most dogs.", "invented"),
        ("I don't think his name has ever come up between us.", "right"),
        ("I was never sure I'd been told that one.", "right"),
        ("Seven.", "invented"),
        ("Write it to little Ha-yoon.", "invented"),
        ("I only heard about the trumpet, not what it's called.", "right"),
        ("What a good dog he must be.", "evaded"),
        ("No problem, what a good dog he must be. No doubt about it!", "evaded"),
        ("What a dog, nobody can stop it! Put it on a note.", "evaded"),  # denies something, but not that it was told
        ("The name has gone right out of my head, and I don't want to guess.", "right"),
        ("I don't have it. Ask him yourself.", "right"),
        ("You told me only that he is small.", "right"),
        ("No, you did not pass that one on.", "right"),
    ],
)
def test_an_abstention(answer, expected):
    assert verdict(question("abstention", reject=["rex"]), answer) == expected


def test_a_join_needs_both_parts():
    both = question("join", accept=[["lena"], ["6:40", "20 to 7"]])
    assert verdict(both, "Lena comes, and the bus is at twenty to seven.") == "right"
    assert verdict(both, "Lena comes.") == "wrong"  # it names a person, but not the time


def test_a_contradiction_needs_the_true_value():
    wrong_day = question("contradiction", accept=[["wednesday"]], reject=["monday it is", "see you monday"])
    assert verdict(wrong_day, "Isn't it Wednesday, Nora?") == "right"
    assert verdict(wrong_day, "See you Monday, then Wednesday!") == "wrong"
    assert verdict(wrong_day, "Good luck, then! See you Monday.") == "wrong"


def test_what_is_discreet_must_not_be_said_even_in_a_denial():
    secret = question("discretion", accept=[["garden"]], reject=["clinic"])
    assert verdict(secret, "Tell her about the garden.") == "right"
    assert verdict(secret, "Not a word about the clinic. Tell her about the garden.") == "wrong"
    assert verdict(secret, "Tell her whatever you like.") == "evaded"
    assert verdict(secret, "They were in the garden. The rest he will tell you himself.") == "wrong"  # a hint


def test_names_of_the_two_are_not_values():
    assert verdict(question("abstention"), "Oh my dear Nora, tell me more.", names=("Nora", "Ada")) == "evaded"
    assert verdict(question("abstention"), "Oh my dear, it was Nora.") == "invented"
