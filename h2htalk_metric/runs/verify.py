"""``h2htalk verify RUN``: recompute a scored run from its predictions and compare every figure."""

__all__ = ["verify_run"]

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.run_folder import flatten
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import ANSWERS_DIGEST, SCORING_ID, measure_run, read_stored_scores

_TOLERANCE = 1e-5  # embeddings differ in the last bits between machines
_HALF_PRECISION_TOLERANCE = 2e-3  # of S and SS if an embedder ran in half precision; MiniLM on 330 pairs: 4e-4 at most
_EMBEDDED = ("ss", "composite", "content_composite")
_VERSIONS = ("h2htalk", "libraries")
# h2htalk 0.1 did not store these columns.
_NEW_COLUMNS = {"relationship", "need", "difficulty", "emotion", "turns", "reference_words", "fact_errors"}
_WORD_LIMIT = r"\d+ words, the limit is \d+"
_MISSING = "(nothing)"


def verify_run(run: Run | str | Path, embedder: Embedder | None = None) -> list[str]:
    """Recompute a scored run and return one line per difference; an empty list means that every figure is confirmed.

    Every figure of ``score.json`` and every column of ``scores.parquet`` is compared. Other versions of this package
    or of a library are not a difference by themselves; they are named if a figure differs. If the embedder ran in
    another precision (for instance on a GPU), that is reported, and S and SS are compared with a wider tolerance.

    Args:
        run: the scored run, or its folder.
        embedder: the embedder that the signature names, if it is loaded already.

    Raises:
        H2HTalkError: the run is not scored or not complete, or its embedder cannot be loaded.

    """
    parts = Run.of(run).by_language
    differences = {code: _verify_language(part, embedder) for code, part in parts.items()}
    return [line if len(parts) == 1 else f"{code}: {line}" for code, lines in differences.items() for line in lines]


def _verify_language(run: Run, embedder: Embedder | None) -> list[str]:
    scores, stored = read_stored_scores(run)
    if "embedder" not in scores.signature:
        raise H2HTalkError(f"{run.path}: score.json names no embedder; score the run again: h2htalk score {run.path}")
    references = scores.signature.get("references", "first")
    fresh = measure_run(run, embedder or scores.signature["embedder"], references)
    old, new = dict(stored), fresh.summary()
    for key in (SCORING_ID, ANSWERS_DIGEST):
        old.pop(key, None)
    old_signature, new_signature = dict(old.pop("signature")), dict(new.pop("signature"))
    old_precision, new_precision = (s.pop("embedder_precision", None) for s in (old_signature, new_signature))
    same_precision = old_precision == new_precision and not str(new_precision).endswith("float16")
    tolerance = _TOLERANCE if same_precision else _HALF_PRECISION_TOLERANCE
    old_versions, new_versions = ({key: s.pop(key, None) for key in _VERSIONS} for s in (old_signature, new_signature))
    items = scores.items
    word_counts: list[str] = []
    if not _NEW_COLUMNS & (set(items.columns) - {"relationship"}):
        items, word_counts = _word_count_differences(items, fresh.items)
    differences = [
        *_signature_differences(old_signature, new_signature),
        *_item_differences(items, fresh.items, tolerance),
        *(line for line in _figure_differences(old, new, tolerance) if not (word_counts and ".format_rate:" in line)),
        *word_counts,
    ]
    if differences:
        differences = [*_signature_differences(old_versions, new_versions), *differences]
    if old_precision != new_precision:
        differences.insert(
            0,
            f"{'the' if differences else 'only the'} embedder's precision differs: {old_precision} when the run was "
            f"scored, {new_precision} here; S and SS were compared with a tolerance of {tolerance:g}. Verify it on a "
            "device of the first kind, or score it again here",
        )
    return differences


def _signature_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Compare the keys that the stored signature has; newer versions may add keys."""
    before, after = dict(flatten(old)), dict(flatten(new))
    return [
        f"signature.{key}: stored {value!r}, now {after.get(key, _MISSING)!r}"
        for key, value in sorted(before.items())
        if after.get(key, _MISSING) != value
    ]


def _figure_differences(old: Mapping[str, Any], new: Mapping[str, Any], tolerance: float) -> list[str]:
    before, after = dict(flatten(old)), dict(flatten(new))
    return [
        f"{name}: stored {_shown(before.get(name, _MISSING))}, now {_shown(after.get(name, _MISSING))}"
        for name in sorted(before.keys() | after.keys())
        if not _agree(name, before.get(name, _MISSING), after.get(name, _MISSING), tolerance)
    ]


def _agree(name: str, old: Any, new: Any, tolerance: float) -> bool:
    if not (isinstance(old, float) and isinstance(new, float)):
        return bool(old == new)
    if name.startswith("row."):
        return abs(old - new) <= 100 * tolerance
    return abs(old - new) <= (tolerance if name.rpartition(".")[2] in _EMBEDDED else _TOLERANCE)


def _item_differences(stored: pd.DataFrame, fresh: pd.DataFrame, tolerance: float) -> list[str]:
    """One line per item that differs; it names S if S differs, else the first column that does."""
    fresh = fresh.drop(columns=[column for column in _NEW_COLUMNS if column not in stored])
    if unexpected := set(stored.columns) ^ set(fresh.columns):
        return [f"scores.parquet lacks columns or has others: {', '.join(sorted(map(repr, unexpected)))}"]
    if stored["id"].tolist() != fresh["id"].tolist():
        return ["scores.parquet holds other records than predictions.jsonl"]
    columns = ["composite", *(column for column in fresh if column != "composite")]
    differs = np.stack([_differing(stored[column], fresh[column], tolerance) for column in columns], axis=1)
    lines = []
    for place in np.flatnonzero(differs.any(axis=1)):
        column = columns[differs[place].argmax()]
        old, new = (_shown(items[column].iloc[place]) for items in (stored, fresh))
        name = "S" if column == "composite" else column
        lines.append(f"{fresh['id'].iloc[place]}: stored {name} {old}, recomputed {new}")
    return lines


def _word_count_differences(stored: pd.DataFrame, fresh: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Take out of files of h2htalk 0.1 the format errors that only its word counter caused.

    It counted dashes and emoji as words, so an answer of 40 words could be reported as one of 41.
    """
    if stored["id"].tolist() != fresh["id"].tolist() or "format_error" not in stored:
        return stored, []
    old, new = stored["format_error"].astype(object), fresh["format_error"].astype(object)
    changed = old.astype(str).str.fullmatch(_WORD_LIMIT) & (old.astype(str) != new.astype(str))
    if not changed.any():
        return stored, []
    return stored.assign(format_error=old.where(~changed, new)), [
        f"format_error of {changed.sum()} items and the format rates: h2htalk 0.1 counted dashes and emoji as words, "
        "so its word counts were too high; S is not affected. To store the correct ones, score the run again"
    ]


def _differing(old: pd.Series, new: pd.Series, tolerance: float) -> np.ndarray:
    """Where a column differs, bool of shape (n,); missing on both sides is equal."""
    if pd.api.types.is_float_dtype(new):
        distances = np.abs(pd.to_numeric(old, errors="coerce").to_numpy(dtype=float) - new.to_numpy())
        same = distances <= (tolerance if new.name in _EMBEDDED else _TOLERANCE)
    else:
        same = old.to_numpy(dtype=object) == new.to_numpy(dtype=object)
    return ~(same | (old.isna().to_numpy() & new.isna().to_numpy()))


def _shown(value: Any) -> str:
    """A number or an untrusted text, without control characters."""
    return f"{value:.6f}" if isinstance(value, float) else repr(value)
