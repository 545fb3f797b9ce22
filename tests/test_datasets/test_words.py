import pytest

from h2htalk_datasets.words import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We could go - or stay — or write.", "we could go or stay or write"),
        ("Well done 🎉 👍🏽 ❤️ !!", "well done"),
        ("'Don't,' she said, 'it’s well-known.'", "don't she said it’s well-known"),
        ("the boys' room -- (quiet)", "the boys room quiet"),
        ("At 20:15, 1,000 of us, 24/7, at A&E by 3 p.m.", "at 20:15 1,000 of us 24/7 at a&e by 3 p.m"),
        ("yes,no;maybe/never…now", "yes no maybe never now"),
        ("我想你，真的。OK 3点", "我 想 你 真 的 ok 3 点"),
        ("* - \n 1. _ ...", "1"),
        ("", ""),
    ],
)
def test_a_word_has_a_letter_or_a_digit(text, expected):
    assert words(text) == expected.split()


@pytest.mark.timeout(60)
def test_the_time_is_linear_in_the_length():
    assert len(words("a-" * 200_000)) == 1
    assert words("'-." * 200_000) == []
