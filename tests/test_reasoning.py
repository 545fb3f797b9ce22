"""Thoughts are cut from an answer and kept."""

import pytest

from h2htalk_datasets.generation.reasoning import cut_reasoning


@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        ("Come in.", "Come in.", None),
        ("<think>She is cold.</think>\n\nCome in.", "Come in.", "She is cold."),
        ("<thinking>a\nb</thinking>Come in.", "Come in.", "a\nb"),
        ("She is cold.\n</think>\nCome in.", "Come in.", "She is cold."),  # the template opened the block
        ("<think>She is co", "", "She is co"),  # the room ended within
        ("<think></think>Come in.", "Come in.", None),
        ("<think>a</think>Come <think>b</think>in.", "Come in.", "a\n\nb"),
        ("a</think>Come in. <think>and then", "Come in.", "a\n\nand then"),
        ("I think <thin ice> breaks.", "I think <thin ice> breaks.", None),
        ("", "", None),
    ],
)
def test_cut(text, answer, thoughts):
    assert cut_reasoning(text) == (answer, thoughts)
