"""`h2htalk probe` with the demo model and a real server with a real (poor) judge."""

import importlib.util
import json
import subprocess
import sys

import pytest
from helpers.servers import llama

from h2htalk_metric.probes.safety import MEASURES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.very_slow,
    pytest.mark.timeout(3000),  # a verdict of a rambling model takes a minute on two busy cores
    pytest.mark.skipif(not importlib.util.find_spec("llama_cpp"), reason="llama-cpp-python[server] is not installed"),
]


def h2htalk(*arguments):
    """Run ``h2htalk ...`` in a process of its own, for as long as it takes."""
    command = [sys.executable, "-c", "from h2htalk_metric.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sap") / "run"
    made = h2htalk(
        "run", "--model", "demo", "--embedder", "demo", "--tasks", "ItineraryResponse", "--limit", 1, "--out", folder
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="module")
def judge():
    with llama() as server:
        yield ["--judge", "smollm2", "--base-url", server.url, "--max-connections", 1, "--timeout", 400]


def safety_folder(run, variant, mode="rollout"):
    return run / "probes" / "safety" / mode / variant


def test_two_variants_are_answered_judged_and_compared(run, judge):
    command = ["probe", "safety", run, "--variants", "with,without", "--limit", 2, "--embedder", "demo"]
    done = h2htalk(*command, *judge)
    assert done.returncode == 0, done.stderr
    result = json.loads((run / "probes" / "safety.json").read_text())
    rollout = result["modes"]["rollout"]
    assert (result["n"], list(rollout["variants"])) == (2, ["with", "without"])
    for name, counts in rollout["variants"].items():
        assert counts["judge"]["scored"] + counts["judge"]["unscored"] == 2
        assert sum(counts["judge"]["reasons"].values()) == counts["judge"]["unscored"]
        for figures in rollout["figures"][name].values():
            assert set(figures["text"]) == {"bleu4", "rougeL", "ss"}
            for key, one in figures.get("judge", {}).items():
                low, high = (0, 1) if MEASURES[key].rate else (1, 5)
                assert low <= one["value"] <= high
                if one["low"] is not None:  # marks of a single scenario have no interval
                    assert low <= one["low"] <= one["value"] <= one["high"] <= high
    tests = rollout["tests"]["without"]["danger"]["text"]
    assert {"difference", "low", "high", "p", "p_holm"} <= tests["ss"].keys()
    answers = [(safety_folder(run, name) / "predictions.jsonl").read_text() for name in ("with", "without")]
    assert answers[0] != answers[1]
    if any(counts["judge"]["scored"] for counts in rollout["variants"].values()):
        assert "Safety Perception (judge)" in (run / "probes" / "safety.md").read_text()
    assert "Safety with and without SAP" in (run / "report.html").read_text()
    manifests = [json.loads((folder / "run.json").read_text()) for folder in (run, safety_folder(run, "without"))]
    assert manifests[0]["model"] == manifests[1]["model"]
    assert manifests[1]["prompts"]["sap"] == [] and manifests[1]["dataset"]["rollout"]
    again = h2htalk(*command)  # nothing is answered or judged again
    assert again.returncode == 0 and "answers:" not in again.stderr
    assert json.loads((run / "probes" / "safety.json").read_text())["modes"]["rollout"]["figures"] == rollout["figures"]


def test_teacher_forced_answers_stand_beside_those_of_the_roll_out(run):
    """Without a judge: the local engine answers later turns in both ways, and the report has both in one table."""
    options = ["--variants", "with", "--limit", 2, "--embedder", "demo"]
    done = h2htalk("probe", "safety", run, "--teacher-forced", *options)
    assert done.returncode == 0, done.stderr
    rolled, forced = (
        [json.loads(line) for line in (safety_folder(run, "with", mode) / "predictions.jsonl").open()]
        for mode in ("rollout", "teacher_forced")
    )
    assert [line["id"] for line in rolled] == [line["id"] for line in forced]
    for one, other in zip(rolled, forced, strict=True):
        # A first turn has the same prompt in both ways, so its answer is the same to the letter.
        assert (one["prediction"] == other["prediction"]) or len(one["history"]) > 1
    assert "| with SAP | references |" in (run / "probes" / "safety.md").read_text()


def test_the_review_takes_a_variant_as_it_is(run, judge):
    done = h2htalk("review", "export", safety_folder(run, "with"), "--blank")
    assert done.returncode == 0, done.stderr
    assert "What the answer must not do:" in (safety_folder(run, "with") / "review-sheet.csv").read_text("utf-8-sig")


def test_implicit_needs_and_needs_that_change(run, judge):
    instructions = h2htalk("probe", "instructions", run, "--limit", 1, *judge)
    assert instructions.returncode == 0, instructions.stderr
    counts = json.loads((run / "probes" / "instructions.json").read_text())["counts"]["judge"]
    assert counts["scored"] + counts["unscored"] == 2  # a record and its explicit control
    conversation = h2htalk("probe", "conversation", run, "--user", "demo", "--limit", 1, "--turns", 4, *judge)
    assert conversation.returncode == 0, conversation.stderr
    [transcript] = [
        json.loads(file.read_text()) for file in (run / "probes" / "conversation" / "transcripts").glob("*.json")
    ]
    assert transcript["ended"] and len(transcript["history"]) <= 8
    assert "Needs that change" in (run / "report.html").read_text()
