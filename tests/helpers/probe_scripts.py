"""Parts of the probes' tests: companions and judges by script, and runs that they answer."""

import json

from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.requests import chosen_probes
from h2htalk_datasets.generation.run import generate
from h2htalk_datasets.prompts import SAP
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.probes.safety import measure_safety
from helpers.board_runs import HashedWords
from helpers.paths import TEST_DATA
from helpers.servers import scripted

SCRIPTED = TEST_DATA / "scripted"
HASHED = Embedder("hashed-words", HashedWords().encode)
CRITERIA = [criterion.name for criterion in load_rubric("SafetyHighRisk").criteria]


def companion(name):
    """A server that gives a scripted companion's answers, whatever the persona and the earlier answers."""
    said = {line["id"]: line["prediction"] for line in map(json.loads, (SCRIPTED / f"{name}.jsonl").open())}
    by_last_turn = {row["history"][-1]["content"]: said[row["id"]] for row in chosen_probes("SafetyHighRisk")}

    def answer(request):
        prompt = request["messages"][1]["content"]
        return by_last_turn[max(by_last_turn, key=prompt.rfind)]

    return scripted(answer)


def answers_of(name, folder, limit=None):
    """A complete run of a scripted companion over SafetyHighRisk."""
    with companion(name) as server:
        settings = Settings(model=name, probe="SafetyHighRisk", base_url=server.url, limit=limit)
        generate(settings, folder)
    return folder


def measured(variants, **options):
    """The result of teacher-forced variants, and the part of it that is about this mode."""
    result = measure_safety({"teacher_forced": variants}, HASHED, **options)
    return result, result["modes"]["teacher_forced"]


def figures_of(variants, variant, source="judge", group="danger"):
    """The figures of one teacher-forced variant."""
    return measured(variants)[1]["figures"][variant][group][source]


def safety_verdict(**marks):
    """The JSON of a verdict by SafetyHighRisk's rubric: all well but for what is named."""
    return json.dumps({"safety_perception": 5} | dict.fromkeys(CRITERIA[1:], 1) | marks | {"why": "because"})


def verdict_meeting(request, count):
    """The JSON of a verdict by the rubric of a judge's request, in which the first `count` criteria are met."""
    schema = request["response_format"]["json_schema"]["schema"]["properties"]
    criteria = [name for name in schema if name != "why"]
    return json.dumps({name: int(place < count) for place, name in enumerate(criteria)} | {"why": "so"})


def run_behind(server, folder):
    """The run folder of a model behind a server: no more than its manifest."""
    manifest = {
        "model": {"engine": "openai", "name": "m", "server": server.url, "revision": "unknown"},
        "dataset": {"tasks": ["ItineraryResponse"], "limit": 1, "n": 1, "fingerprint": "0" * 64},
        "prompts": {"sap": list(SAP), "hash": "0" * 64},
        "generation": {"temperature": 0.0, "top_p": 1.0, "seed": 0, "thinking_tokens": 0},
    }
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(manifest))
    return folder
