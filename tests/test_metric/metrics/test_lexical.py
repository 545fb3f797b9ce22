"""BLEU against NLTK and ROUGE against rouge-score, to 1e-12."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score import rouge_scorer, tokenizers

from h2htalk_metric.metrics.lexical import bleu, lexical, rouge_1, rouge_l
from h2htalk_metric.metrics.tokenizers import bleu_tokens, rouge_tokens

WORDS = st.lists(st.sampled_from(["tea", "sea", "bee", "see", "the", "a", "of"]), max_size=14)
WEIGHTS = [(1,), (1 / 2,) * 2, (1 / 3,) * 3, (1 / 4,) * 4]


class Cut(tokenizers.Tokenizer):
    """rouge-score on tokens that are cut already."""

    def tokenize(self, text):
        return text.split("\x1f") if text else []


def nltk_bleu(prediction, reference):
    smooth = SmoothingFunction().method1
    return [float(sentence_bleu([reference], prediction, w, smoothing_function=smooth)) for w in WEIGHTS]


def google_rouge(prediction, reference):
    scores = rouge_scorer.RougeScorer(["rouge1", "rougeL"], tokenizer=Cut()).score(
        "\x1f".join(reference), "\x1f".join(prediction)
    )
    return scores["rouge1"].fmeasure, scores["rougeL"].fmeasure


@given(WORDS, WORDS)
def test_bleu_is_nltks(prediction, reference):
    assert bleu(prediction, reference) == pytest.approx(nltk_bleu(prediction, reference), abs=1e-12)


@given(WORDS, WORDS)
def test_rouge_is_rouge_scores(prediction, reference):
    ours = rouge_1(prediction, reference), rouge_l(prediction, reference)
    assert ours == pytest.approx(google_rouge(prediction, reference), abs=1e-12)


def test_on_the_shipped_english_records(records):
    references = [record.reference for record in records]
    shuffled = random.Random(5).sample(references, len(references))
    library = rouge_scorer.RougeScorer(["rouge1", "rougeL"])
    for prediction, reference in zip(shuffled, references, strict=True):
        score = library.score(reference, prediction)
        expected = nltk_bleu(bleu_tokens(prediction, "en"), bleu_tokens(reference, "en"))
        expected += [score["rouge1"].fmeasure, score["rougeL"].fmeasure]
        assert lexical(prediction, reference, "en") == pytest.approx(expected, abs=1e-12)


def test_chinese_is_cut_by_jieba_without_white_space():
    assert bleu_tokens("我 喜欢喝茶\n", "zh") == rouge_tokens("我 喜欢喝茶\n", "zh") == ["我", "喜欢", "喝茶"]


def test_english_keeps_case_for_bleu_only():
    assert bleu_tokens("Tea, please.", "en") == ["Tea", ",", "please", "."]
    assert rouge_tokens("Tea, please.", "en") == ["tea", "please"]


def test_on_the_published_chinese_references(release_folder):
    """All 4,589, each against another of its task, as answers shuffled."""
    from h2htalk_datasets import authors_release

    scorer = rouge_scorer.RougeScorer(["rouge1", "rougeL"], tokenizer=Cut())
    checked = 0
    for task, rows in authors_release(release_folder).configs.items():
        references = list(rows["reference"])
        answers = random.Random(task).sample(references, len(references))
        for answer, reference in zip(answers, references, strict=True):
            cut_answer, cut_reference = rouge_tokens(answer, "zh"), rouge_tokens(reference, "zh")
            theirs = scorer.score("\x1f".join(cut_reference), "\x1f".join(cut_answer))
            expected = [*nltk_bleu(cut_answer, cut_reference), theirs["rouge1"].fmeasure, theirs["rougeL"].fmeasure]
            assert lexical(answer, reference, "zh") == pytest.approx(expected, abs=1e-12)
            checked += 1
    assert checked == 4589
