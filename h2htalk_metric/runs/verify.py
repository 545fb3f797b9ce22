"""`h2htalk verify RUN`: a scored run recomputed from its predictions, and compared figure by figure."""

__all__ = ["verify_run"]

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.run_folder import flat
from h2htalk_metric.runs.scoring import ANSWERS, STAMP, RunScores, measure_run

_SAME = 1e-5  # how far a recomputed figure may be off: embeddings differ in the last bits between machines
_ROUNDED = 2e-3  # of S and SS where an embedder ran in half precision; by MiniLM 330 pairs differ by 4e-4 at most
_EMBEDDED = ("ss", "composite", "content_composite")
_VERSIONS = ("h2htalk", "libraries")  # in the signature
_MISSING = "(nothing)"


def verify_run(folder: str | Path) -> list[str]:
    """Recompute a scored run from its predictions, and return what does not stand; empty where all stands.

    Every figure of ``score.json`` and every column of ``scores.parquet`` is compared. Other versions of this package or
    of a library are no fault by themselves; they are named where a figure differs. Where the embedder ran in another
    precision then (on a GPU, say), that is a fault of its own, and SS may be off by what such roundings make.

    Raises:
        H2HTalkError: the run is not scored or not complete, or its embedder can't be loaded.

    """
    stored = RunScores.stored(folder)
    if "embedder" not in stored.signature:
        raise H2HTalkError(f"{folder}: score.json names no embedder; score the run again: h2htalk score {folder}")
    fresh = measure_run(folder, stored.signature["embedder"])
    told, found = json.loads((Path(folder) / "score.json").read_text("utf-8")), fresh.summary()
    for stamp in (STAMP, ANSWERS):
        told.pop(stamp, None)
    was, now = (summary["signature"].pop("embedder_precision", None) for summary in (told, found))
    room = _SAME if was == now and not str(now).endswith("float16") else _ROUNDED
    versions, new_versions = ({key: s["signature"].pop(key, None) for key in _VERSIONS} for s in (told, found))
    causes, new_causes = ({"signature": summary.pop("signature")} for summary in (told, found))
    faults = [
        *_tree_faults(causes, new_causes, room),
        *_item_faults(stored.items, fresh.items, room),
        *_tree_faults(told, found, room),
    ]
    if faults:
        faults = [*_tree_faults({"signature": versions}, {"signature": new_versions}, room), *faults]
    if was != now:
        only = "the" if faults else "only the"
        faults.insert(
            0,
            f"{only} embedder's precision differs, {was} when it was scored and {now} here: S and SS were compared to "
            f"within {room:g}; verify it on a device of the first kind, or score it again here",
        )
    return faults


def _tree_faults(told: Mapping[str, Any], found: Mapping[str, Any], room: float) -> list[str]:
    faults = []
    old, new = dict(flat(told)), dict(flat(found))
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, _MISSING), new.get(name, _MISSING)
        if not _agree(name, before, after, room):
            faults.append(f"{name}: stored {_shown(before)}, now {_shown(after)}")
    return faults


def _agree(name: str, old: Any, new: Any, room: float) -> bool:
    if not (isinstance(old, float) and isinstance(new, float)):
        return bool(old == new)
    if name.startswith("row."):
        return abs(old - new) <= 100 * room
    return abs(old - new) <= (room if name.rpartition(".")[2] in _EMBEDDED else _SAME)


def _item_faults(stored: pd.DataFrame, fresh: pd.DataFrame, room: float) -> list[str]:
    """A line for each item that differs, which names S if it does, else the first column that does."""
    if odd := set(stored.columns) ^ set(fresh.columns):
        return [f"scores.parquet lacks columns or has others: {', '.join(sorted(map(repr, odd)))}"]
    if stored["id"].tolist() != fresh["id"].tolist():
        return ["scores.parquet holds other records than predictions.jsonl"]
    columns = ["composite", *(column for column in fresh if column != "composite")]
    off = np.stack([_differing(stored[column], fresh[column], room) for column in columns], axis=1)
    faults = []
    for place in np.flatnonzero(off.any(axis=1)):
        column = columns[off[place].argmax()]
        old, new = (_shown(items[column].iloc[place]) for items in (stored, fresh))
        name = "S" if column == "composite" else column
        faults.append(f"{fresh['id'].iloc[place]}: stored {name} {old}, recomputed {new}")
    return faults


def _differing(old: pd.Series, new: pd.Series, room: float) -> np.ndarray:
    """Where a column differs, bool of shape (n,); what is missing on both sides is the same."""
    if pd.api.types.is_float_dtype(new):
        gaps = pd.to_numeric(old, errors="coerce").to_numpy(dtype=float) - new.to_numpy()
        same = np.abs(gaps) <= (room if new.name in _EMBEDDED else _SAME)
    else:
        same = old.to_numpy(dtype=object) == new.to_numpy(dtype=object)
    return ~(same | (old.isna().to_numpy() & new.isna().to_numpy()))


def _shown(value: Any) -> str:
    """A figure or a text from outside, of which a terminal takes nothing for its own."""
    return f"{value:.6f}" if isinstance(value, float) else repr(value)
