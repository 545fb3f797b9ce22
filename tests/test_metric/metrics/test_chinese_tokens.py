"""Chinese scores do not depend on the width of characters, on spaces, or on what a program adds to jieba."""

import random
import re

import pytest

from h2htalk_datasets import TASKS, load
from h2htalk_metric.metrics.lexical import character_lexical, lexical
from h2htalk_metric.metrics.signature import make_signature
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.metrics.tokenizers import bleu_tokens, characters, tokenizer_name

FULL = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
HALF = {full: code for code, full in FULL.items()}
HAN, LATIN = "[\u4e00-\u9fff]", "[A-Za-z0-9]"
SPACES = re.compile(f"(?<={HAN})(?={LATIN})|(?<={LATIN})(?={HAN})")


@pytest.fixture(scope="module")
def pairs():
    """Pairs of an answer, some pieces of the reference, and the reference: of twenty records per config."""
    generator = random.Random(1)
    references = [row["reference"] for task in TASKS for row in load(task, "zh").to_list()[:20]]
    pieces = [re.findall(r"(?s).{1,3}", reference) for reference in references]
    return [
        ("".join(piece for piece in parts if generator.random() < 0.7) or text, text)
        for parts, text in zip(pieces, references, strict=True)
    ]


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda text: text.translate(HALF),
        lambda text: text.translate({code: FULL[code] for code in map(ord, "0123456789")}),
        lambda text: text.replace(" ", "\u3000"),
    ],
    ids=["half-width punctuation", "full-width digits", "full-width spaces"],
)
def test_width_does_not_change_a_score(pairs, rewrite):
    changed = [(answer, reference) for answer, reference in pairs if rewrite(answer) != answer]
    assert changed
    for answer, reference in changed:
        assert lexical(rewrite(answer), reference, "zh") == lexical(answer, reference, "zh")
        assert character_lexical(rewrite(answer), reference) == character_lexical(answer, reference)


def test_a_half_width_stop_changes_a_score_by_little(pairs):
    """Jieba may join it to a digit, so single answers change by some points, the mean by less than 0.3."""
    differences = [
        100 * abs(sum(lexical(answer.replace("。", "."), text, "zh")) - sum(lexical(answer, text, "zh"))) / 7
        for answer, text in pairs
    ]
    assert sum(differences) / len(differences) < 0.3


def test_spaces_around_digits_change_few_scores():
    """Jieba cuts what is between two spaces by itself, so that words of a garbled answer may be cut otherwise."""
    references = [row["reference"] for task in TASKS for row in load(task, "zh").to_list()[:40]]
    spaced = [(SPACES.sub(" ", text), text) for text in references if SPACES.search(text)]
    differences = [
        100 * abs(sum(lexical(one, text, "zh")) - sum(lexical(text, text, "zh"))) / 7 for one, text in spaced
    ]
    assert len(spaced) > 40
    assert sum(difference > 0 for difference in differences) / len(spaced) < 0.05
    assert sum(differences) / len(differences) < 0.3


def test_words_that_a_program_adds_to_jieba_do_not_change_the_tokens():
    import jieba

    before = bleu_tokens("立秋文具开门了", "zh")
    jieba.add_word("立秋文具", freq=10**9)
    try:
        assert "立秋文具" in jieba.lcut("立秋文具开门了")
        assert bleu_tokens("立秋文具开门了", "zh") == before
    finally:
        jieba.del_word("立秋文具")


def test_the_signature_names_jieba_its_version_and_its_dictionary():
    signature = make_signature(embedder=Embedder("none", len), languages=["zh"], n=1)
    assert re.fullmatch("jieba,half-width,dictionary:[0-9a-f]{12}", tokenizer_name("zh"))
    assert signature["tokenizers"] == {"zh": tokenizer_name("zh")}
    assert signature["libraries"]["jieba"]


def test_characters_have_no_white_space():
    assert characters("喝 茶，\n１杯。") == ["喝", "茶", ",", "1", "杯", "."]
