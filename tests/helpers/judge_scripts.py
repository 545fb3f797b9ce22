"""Parts of the judge's tests: a run folder with answers, and judges by script."""

import json
import re
import unicodedata

from h2htalk_datasets import load
from h2htalk_datasets.fingerprint import fingerprint

TASKS = ("ItineraryBasic", "ItineraryMiddle", "ItineraryAdvanced")
CRITERIA = ("well_paced", "true_to_persona", "grounded", "vivid", "keeps_form")


def make_run(folder, each=2, tasks=(*TASKS, "ItineraryResponse"), answer=lambda record, i: f"Answer {i}.", step=1):
    """A complete run as generation leaves it, with answers by hand; returns its records, every `step`-th of a task."""
    records = [record for task in tasks for record in list(load(task))[: each * step : step]]
    folder.mkdir(parents=True)
    dataset = {"n": len(records), "fingerprint": fingerprint(records), "tasks": list(tasks), "limit": each}
    model = {"name": "by hand", "revision": None, "dtype": "none", "engine": "none"}
    generation = {"temperature": 0, "seed": 0}
    manifest = {"dataset": dataset, "model": model, "prompts": {"sap": [], "hash": "0" * 64}, "generation": generation}
    (folder / "run.json").write_text(json.dumps(manifest))
    lines = [
        {"id": r["id"], "prediction": answer(r, i), "task": r["task"], "finish_reason": "stop", "new_tokens": 3}
        for i, r in enumerate(records)
    ]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return records


def verdict(*marks, why="because"):
    """The JSON of a verdict: one mark for all criteria, or five."""
    marks = marks * 5 if len(marks) == 1 else marks
    return json.dumps({**dict(zip(CRITERIA, marks, strict=True)), "why": why})


def verdict_of_schema(request, mark, why="because"):
    """The JSON of a verdict for any rubric: one mark for all criteria that the request asks for."""
    properties = request["response_format"]["json_schema"]["schema"]["properties"]
    return json.dumps({name: why if name == "why" else mark for name in properties})


def block(request, name):
    """The text of a block of a request's prompt."""
    user = request["messages"][1]["content"]
    return re.search(rf"<<<BEGIN {name} (\w+)>>>\n(.*)\n<<<END {name} \1>>>", user, re.DOTALL)[2]


def answer_first(request):
    """Whether a request's prompt shows the answer before the reference."""
    user = request["messages"][1]["content"]
    return user.index("<<<BEGIN ANSWER") < user.index("<<<BEGIN REFERENCE")


def by_content(request):
    """Scores that depend on the answer and on its position."""
    marks = [(sum(block(request, "ANSWER").encode()) >> shift) % 6 for shift in range(5)]
    return verdict(*(marks if answer_first(request) else reversed(marks)))


def refuses_temperature_0(request):
    """A judge as :func:`by_content` whose server refuses temperature 0, in the words of OpenAI's reasoning models."""
    if request.get("temperature", 1) != 1:
        text = f"Unsupported value: 'temperature' does not support {request['temperature']:g} with this model."
        return 400, {"error": {"message": text, "type": "invalid_request_error", "param": "temperature", "code": None}}
    return by_content(request)


_SLOPPY = re.compile(r"<\s*<\s*<[^\w<>]*(begin|end)\b[^<>]*>\s*>\s*>", re.IGNORECASE)


def outside(text):
    """What a credulous reader takes for text outside all blocks: it accepts anything that resembles a delimiter.

    Written without the project's own code: it sees through invisible characters, other widths and cases, and does
    not look at the delimiter's code at all.
    """
    seen = "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Mn") and c not in "\u2800\u3164\u115f")
    seen = unicodedata.normalize("NFKC", seen).translate(dict.fromkeys(map(ord, "‹〈⟨《«≪❮"), "<"))
    seen = seen.translate(dict.fromkeys(map(ord, "›〉⟩》»≫❯"), ">"))
    seen = re.sub(r"<\|[^<>]*\|>", " <<<END by special token>>>\n", seen)
    parts, depth, last = [], 0, 0
    for match in _SLOPPY.finditer(seen):
        if depth == 0:
            parts.append(seen[last : match.start()])
        depth = 1 if match[1].lower() == "begin" else 0
        last = match.end()
    parts.append(seen[last:] if depth == 0 else "")
    text = re.sub(r"\b[0-9a-f]{32}\b", "CODE", "\n".join(parts))
    return [line.strip() for line in text.splitlines() if line.strip()]
