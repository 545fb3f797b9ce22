"""A scored run with random scores, and hostile text, for the tests of the report."""

import json

import numpy as np
import pandas as pd

from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.prompts import SAP
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.runs.run import Run

HOSTILE = '</script><script>document.title = "owned"</script><img src=http://example.com/x onerror="document.title=1">'
"""A model name or an answer that must be shown as text and never run."""


def scored_run(folder, rows, answers, principles=SAP, composite=None):
    """Write a run folder with these answers and random scores of them, since a report only shows scores.

    Args:
        folder: the run folder.
        rows: records.
        answers: one per record.
        principles: of the persona.
        composite: S of every item, 0..1; None: the mean of the random components.

    """
    manifest = {
        "dataset": {"fingerprint": fingerprint(rows), "tasks": [], "limit": None, "n": len(rows)},
        "prompts": {"sap": list(principles)},
        "model": {"name": f"a model {HOSTILE}", "adapter": "team/lora@1"},
        "generation": {"temperature": 0.0, "seed": 0},
    }
    run = RunFolder(folder)
    run.open(manifest)
    lines = [{"id": row["id"], "task": row["task"], "prediction": a} for row, a in zip(rows, answers, strict=True)]
    run.predictions_file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    items = pd.DataFrame(np.random.default_rng(0).random((len(rows), 7)), columns=list(COMPONENTS))
    items["composite"] = items.mean(axis=1) if composite is None else composite
    for column in ("id", "task", "language"):
        items[column] = [row[column] for row in rows]
    items["relationship"] = items["id"].str.rsplit("-", n=2).str[0]
    items["empty"] = [not answer for answer in answers]
    items["format_error"] = [
        None if place % 4 else f"{place + 90} words, the limit is 40" for place in range(len(rows))
    ]
    items["finish_reason"] = ["stop" if place % 10 else "length" for place in range(len(rows))]
    items[["content_composite", "category_agreement", "importance_error"]] = np.nan
    items.to_parquet(run.path / "scores.parquet")
    (run.path / "score.json").write_text(json.dumps({"signature": {"h2htalk": "0", "embedder": "none, random"}}))
    return Run(run.path)
