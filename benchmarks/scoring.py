"""How fast scoring is, against the two ways people score today, all in one run.

(a) a plain loop: four `sentence_bleu` calls, an LCS in Python, one `encode` a pair, as the paper's authors score;
(b) `sentence_bleu` and rouge-score.

    OMP_NUM_THREADS=2 python benchmarks/scoring.py [--without-embedding]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from results import ratio, seconds, write
from rouge_score import rouge_scorer, tokenizers

from h2htalk_datasets import TASKS, load
from h2htalk_metric.metrics.embedding_cache import EmbeddingCache
from h2htalk_metric.metrics.lexical import _reference_tokens, bleu, lexical, rouge_1, rouge_l
from h2htalk_metric.metrics.similarity import _load_bge_m3
from h2htalk_metric.metrics.tokenizers import bleu_tokens, rouge_tokens

PAIRS = 4650
REPEATS = 5
EMBEDDED_PAIRS = 20
WEIGHTS = [(1,), (1 / 2,) * 2, (1 / 3,) * 3, (1 / 4,) * 4]
SMOOTH = SmoothingFunction().method1


def pairs_of_text(n: int) -> list[tuple[str, str]]:
    """Answers and references of realistic length: each reference against the next of its task, repeated up to n."""
    found = []
    for task in TASKS:
        texts = load(task)["reference"]
        found += list(zip(texts[1:], texts[:-1], strict=True))
    return [found[i % len(found)] for i in range(n)]


class Cut(tokenizers.Tokenizer):
    """Hands rouge-score tokens that are cut already."""

    def tokenize(self, text: list[str]) -> list[str]:
        return text


def plain_lcs(a: list[str], b: list[str]) -> int:
    row = [0] * (len(b) + 1)
    for x in a:
        before = 0
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], before + 1 if x == y else max(row[j], row[j - 1])
    return row[-1]


def plain(words, reference_words, terms, reference_terms):
    figures = [sentence_bleu([reference_words], words, w, smoothing_function=SMOOTH) for w in WEIGHTS]
    common = len([t for t in terms if t in reference_terms])
    return figures, common, plain_lcs(terms, reference_terms)


def libraries(scorer, words, reference_words, terms, reference_terms):
    figures = [sentence_bleu([reference_words], words, w, smoothing_function=SMOOTH) for w in WEIGHTS]
    return figures, scorer.score(reference_terms, terms)


def ours(words, reference_words, terms, reference_terms):
    return bleu(words, reference_words), rouge_1(terms, reference_terms), rouge_l(terms, reference_terms)


def lexical_part() -> str:
    texts = pairs_of_text(PAIRS)
    cut = [(bleu_tokens(a, "en"), bleu_tokens(r, "en"), rouge_tokens(a, "en"), rouge_tokens(r, "en")) for a, r in texts]
    scorer = rouge_scorer.RougeScorer(["rouge1", "rougeL"], tokenizer=Cut())
    runs = {"a": [], "b": [], "ours": []}
    for _ in range(REPEATS):
        runs["a"] += seconds(lambda: [plain(*pair) for pair in cut])
        runs["b"] += seconds(lambda: [libraries(scorer, *pair) for pair in cut])
        runs["ours"] += seconds(lambda: [ours(*pair) for pair in cut])
    whole, again, cutting = [], [], []
    for _ in range(REPEATS):
        _reference_tokens.cache_clear()
        whole += seconds(lambda: [lexical(a, r, "en") for a, r in texts])
        again += seconds(lambda: [lexical(a, r, "en") for a, r in texts])
        cutting += seconds(lambda: [(bleu_tokens(a, "en"), rouge_tokens(a, "en")) for a, _ in texts])
    per = {name: f"{1e3 * float(np.median(times)) / PAIRS:.3f}" for name, times in runs.items()}
    sizes = (1000, 4000, 16000)
    linear = [seconds(lambda n=n: [ours(*cut[i % len(cut)]) for i in range(n)])[0] / n for n in sizes]
    return f"""
Lexical part, {PAIRS} pairs of shipped references, one process, {REPEATS} repeats; ratio: median (lowest to highest).

| the same tokens handed to all | ms a pair | times slower than ours |
|---|---:|---:|
| (a) four sentence_bleu calls, LCS in Python | {per["a"]} | {ratio(runs["a"], runs["ours"])} |
| (b) four sentence_bleu calls, rouge-score | {per["b"]} | {ratio(runs["b"], runs["ours"])} |
| ours | {per["ours"]} | 1 |

With tokenization: {1e3 * np.median(whole) / PAIRS:.3f} ms a pair, {1e3 * np.median(again) / PAIRS:.3f} against references
that were met before, of which cutting the answer takes {1e3 * np.median(cutting) / PAIRS:.3f}.
With the tokens given, a pair at 1,000, 4,000 and 16,000 pairs (the first 1,000 are DialogueBase's, which are short): {", ".join(f"{1e3 * t:.3f}" for t in linear)} ms.
"""


def embedding_part() -> str:
    with tempfile.TemporaryDirectory() as folder:
        embedder = random_bge_m3(Path(folder) / "bge-m3")
        texts = pairs_of_text(EMBEDDED_PAIRS * 3)[::3]
        answers, references = [a for a, _ in texts], [r for _, r in texts]
        model = _load_bge_m3(embedder.name)  # the peer's own, as FlagEmbedding leaves it
        pair, single, cold, second = [], [], [], []
        for repeat in range(3):
            pair += seconds(lambda: [model.encode([a, r])["dense_vecs"] for a, r in texts])
            single += seconds(lambda: [model.encode([text])["dense_vecs"] for a, r in texts for text in (a, r)])
            cache = EmbeddingCache("random bge-m3", str(repeat), Path(folder) / "cache")
            cold += seconds(lambda c=cache: (embedder.encode(answers), c.encode(references, embedder.encode)))
            second += seconds(lambda c=cache: (embedder.encode(answers[::-1]), c.encode(references, embedder.encode)))
    return f"""
Embedding, BGE-M3's architecture with random weights, {EMBEDDED_PAIRS} pairs of shipped references, 3 repeats.

| | s a pair | times faster |
|---|---:|---|
| (a) FlagEmbedding's encode, pair by pair | {np.median(pair) / EMBEDDED_PAIRS:.3f} | |
| the same, text by text | {np.median(single) / EMBEDDED_PAIRS:.3f} | |
| ours, cold | {np.median(cold) / EMBEDDED_PAIRS:.3f} | {ratio(pair, cold)} than (a), {ratio(single, cold)} than text by text |
| ours, a second model, same references | {np.median(second) / EMBEDDED_PAIRS:.3f} | {ratio(cold, second)} than cold |
"""


def random_bge_m3(folder: Path):
    """BGE-M3's architecture (XLM-RoBERTa large, 568M parameters) with random weights, through FlagEmbedding."""
    from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel

    from h2htalk_metric.metrics.similarity import _demo_folder, load_embedder

    sizes = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    config = XLMRobertaConfig(
        vocab_size=250_002, max_position_embeddings=8194, type_vocab_size=1, pad_token_id=0, **sizes
    )
    XLMRobertaModel(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(_demo_folder()).save_pretrained(folder)
    return load_embedder(str(folder))


if __name__ == "__main__":
    parts = [lexical_part()]
    if "--without-embedding" not in sys.argv:
        parts.append(embedding_part())
    write("Scoring", "\n".join(parts), ["nltk", "rouge-score", "rapidfuzz", "torch", "FlagEmbedding"])
