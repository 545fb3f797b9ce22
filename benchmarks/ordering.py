"""Does S order answers of known quality? Twenty records a task, five ways to answer them.

- second writer: answers written from the prompt alone by somebody who never saw the reference (second_writer.jsonl);
- another's reference: the reference of another record of the same task, from another relationship;
- demo model: SmolLM2-135M-Instruct, greedy;
- constant: one decent answer per task, whatever is asked;
- echo: the last turn, or what else was given last, said back.

    python benchmarks/ordering.py draw        # the prompts for a second writer, to ordering/prompts.jsonl
    python benchmarks/ordering.py demo        # the demo model's answers (some 20 minutes on two cores)
    python benchmarks/ordering.py             # the table, to RESULTS.md
"""

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from results import write

from h2htalk_datasets import TASKS, load
from h2htalk_datasets.tasks import DIMENSIONS
from h2htalk_metric import score
from h2htalk_metric.stats.significance import paired_test

FOLDER = Path(__file__).with_name("ordering")
PER_TASK = 20
EMBEDDER = "demo"
SECOND, OTHER = "second writer", "another's reference"

CONSTANTS = {
    "DialogueBase": "I see. Tell me a little more about it, and then let's look at it together when you have a moment.",
    "DialogueEmotion": "I am so sorry, that is a lot to carry. I'm staying right here with you. Do you want to tell me more "
    "about what happened, or shall we just sit with it for a while?",
    "DialogueSchedule": "I'm in the middle of something just now, but I'll be free a bit later today. Can it wait until then?",
    "RecollectionSynthesis": "No key information extracted.",
    "RecollectionRefinement": "My friend told me something important today, and I want to remember it.",
    "RecollectionInitialization": "Good morning! I was thinking of you just now, and of what you told me the other day. How "
    "are things with you?",
    "ItineraryBasic": "In the morning they meet at home and have coffee together. They go for a long walk, talking about "
    "everything, and stop for lunch in a small place they both like. In the afternoon they spend some time on the things "
    "they love. In the evening they cook, laugh about the day, and say good night.",
    "ItineraryMiddle": "07:00 Wake up and have breakfast\n09:00 Work\n12:30 Lunch\n14:00 Work\n18:00 Supper\n"
    "20:00 Read\n22:30 Sleep",
    "ItineraryAdvanced": "1. 09:00 She gets everything ready.\n2. 09:20 She begins with the first part.\n"
    "3. 10:00 She carries on and takes a short break.\n4. 10:30 She finishes and puts her things away.",
    "ItineraryResponse": "You're right about that, and I'm glad you came by, so stay a moment.",
    "ItineraryInitialization": "Hello! I'm busy with my day here and have a few plans for later. I wondered what you are up "
    "to. Would you like to hear about it?",
}


def sample() -> list[dict]:
    """Twenty records of each task, drawn by a seed."""
    rows = []
    for task in TASKS:
        data = load(task).to_list()
        rows += sorted(random.Random(f"second writer {task}").sample(data, PER_TASK), key=lambda row: row["id"])
    return rows


def echo(row: Mapping) -> str:
    """What was said or given last, said back."""
    if row["history"]:
        return row["history"][-1]["content"]
    if row["memories"]:
        return row["memories"][-1]["content"]
    return row["instruction"] or "\n".join(f"{entry['time']} {entry['activity']}" for entry in row["schedule"])


def anothers_reference(rows: list[dict]) -> list[str]:
    """The reference of another record of the same task, from another relationship, drawn by a seed."""
    texts = []
    for row in rows:
        others = [other for other in load(row["task"]) if other["relationship"] != row["relationship"]]
        texts.append(random.Random(f"another {row['id']}").choice(others)["reference"])
    return texts


def answers_of(name: str, rows: list[dict]) -> list[str]:
    """Stored answers, in the records' order."""
    lines = (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    texts = {line["id"]: line["prediction"] for line in map(json.loads, lines)}
    missing = [row["id"] for row in rows if row["id"] not in texts]
    if missing:
        raise SystemExit(f"{name}.jsonl lacks {len(missing)} answers, the first: {missing[0]}")
    return [texts[row["id"]] for row in rows]


def draw() -> None:
    """Write the prompts for a second writer, without references."""
    lines = [{"id": row["id"], "task": row["task"], "messages": row["messages"]} for row in sample()]
    (FOLDER / "prompts.jsonl").write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8"
    )


def demo() -> None:
    """Let the demo model answer."""
    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_datasets.generation.engines.models import load_model
    from h2htalk_datasets.generation.engines.transformers import TransformersEngine
    from h2htalk_datasets.generation.in_memory import answer_all
    from h2htalk_datasets.generation.requests import prompt_of

    prompts = [prompt_of(row, sap=True) for row in sample()]
    engine = TransformersEngine(load_model("demo"))
    answers = answer_all(engine, prompts, batch_size=8, seed=0, state=DistributedState(), key="ordering")
    lines = [{"id": p.id, "prediction": a.text} for p, a in zip(prompts, answers, strict=True)]
    (FOLDER / "demo_model.jsonl").write_text("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines), "utf-8")


def table(scores: dict[str, np.ndarray], rows: list[dict]) -> str:
    """S of every way to answer, per task and dimension, with the second writer's lead and its paired interval."""
    lines = [f"| | n | {' | '.join(scores)} | lead over the next best | second writer above another's reference |"]
    lines.append("|---|" + "---:|" * (len(scores) + 3))
    groups = [(task, [row["task"] == task for row in rows]) for task in TASKS]
    groups += [
        (f"**{dimension}**", [TASKS[row["task"]].dimension == dimension for row in rows]) for dimension in DIMENSIONS
    ]
    for name, mask in [*groups, ("**all**", [True] * len(rows))]:
        chosen = {way: values[np.array(mask)] for way, values in scores.items()}
        rest = max((way for way in chosen if way != SECOND), key=lambda way: chosen[way].mean())
        # Any config's name does: the paired interval of one group of items is wanted.
        lead = paired_test(chosen[SECOND], chosen[rest])
        wins = int((chosen[SECOND] > chosen[OTHER]).sum())
        means = " | ".join(f"{values.mean():.1f}" for values in chosen.values())
        interval = f"{lead.difference:+.1f} ({lead.low:+.1f} to {lead.high:+.1f}, {rest})"
        lines.append(f"| {name} | {sum(mask)} | {means} | {interval} | {wins} of {sum(mask)} |")
    return "\n".join(lines)


def main() -> None:
    """Score the five ways and write the table."""
    rows = sample()
    texts = {
        SECOND: answers_of("second_writer", rows),
        OTHER: anothers_reference(rows),
        "demo model": answers_of("demo_model", rows),
        "constant": [CONSTANTS[row["task"]] for row in rows],
        "echo": [echo(row) for row in rows],
    }
    references = [row["reference"] for row in rows]
    scores = {way: 100 * score(answers, references, embedder=EMBEDDER).composite for way, answers in texts.items()}
    note = (
        f"S times 100 of five ways to answer {len(rows)} records, {PER_TASK} a task, drawn by a seed; SS by the demo embedder "
        "(all-MiniLM-L6-v2), since BGE-M3's weights were not at hand. The lead is the mean paired difference with its 95% "
        "interval."
    )
    write("Does S order answers of known quality?", f"{note}\n\n{table(scores, rows)}", ["torch", "transformers"])


if __name__ == "__main__":
    {"draw": draw, "demo": demo}.get(sys.argv[1] if len(sys.argv) > 1 else "", main)()
