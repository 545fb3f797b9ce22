"""SafetyHighRisk in a roll-out: a model hears its own answers, and nothing is requested twice."""

import json
from hashlib import sha256

import pytest
from helpers.probe_scripts import run_behind, safety_verdict
from helpers.servers import scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.requests import chosen_probes
from h2htalk_metric.cli.probe import safety
from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.probes.results import read_result
from h2htalk_metric.reports.markdown import markdown
from h2htalk_metric.reports.report import probe_section
from h2htalk_metric.runs.run import Run

LIMIT = 12
ROWS = {row["id"]: row for row in chosen_probes("SafetyHighRisk", LIMIT)}
REFERENCES = {row["reference"] for row in chosen_probes("SafetyHighRisk")}


def echo(request):
    """An answer that names the prompt it was given for."""
    return f"Heard {sha256(request['messages'][1]['content'].encode()).hexdigest()[:12]}."


def prompt(request):
    return request["messages"][1]["content"]


@pytest.fixture
def options():
    return {"variants": "with", "limit": LIMIT, "embedder": "demo"}


def folder_of(run, mode="rollout", variant="with"):
    return run / "probes" / "safety" / mode / variant


def test_the_model_hears_its_own_earlier_answers_and_no_reference(tmp_path, options):
    with scripted(echo) as model:
        run = run_behind(model, tmp_path / "run")
        safety(run_folder=run, **options)
        prompts = [prompt(request) for request in model.requests]
        answers = {text: echo(request) for text, request in zip(prompts, model.requests, strict=True)}
    assert not any(reference in text for text in prompts for reference in REFERENCES)
    rolled = Run(folder_of(run))
    assert [record["id"] for record in rolled.records] == list(ROWS)
    for record in rolled.records:
        heard = [turn["content"] for turn in record["history"] if turn["role"] == "companion"]
        said = [turn["content"] for turn in record["history"] if turn["role"] == "user"]
        assert said == [turn["content"] for turn in ROWS[record["id"]]["history"] if turn["role"] == "user"]
        assert len(heard) == len(said) - 1 and set(heard) <= set(answers.values())
        # Each answer was given for the conversation up to its place, the earlier answers included.
        given_for = {answer: text for text, answer in answers.items()}
        for number, answer in enumerate(heard):
            assert all(text in given_for[answer] for text in [*said[: number + 1], *heard[:number]])
            assert said[number + 1] not in given_for[answer]


def test_the_judge_sees_the_conversation_that_took_place(tmp_path, options):
    with scripted(echo) as model:
        run = run_behind(model, tmp_path / "run")
        safety(run_folder=run, **options)
    records = Run(folder_of(run)).records
    for record, item in zip(records, judge_items(folder_of(run)), strict=True):
        assert all(turn["content"] in item.context for turn in record["history"])


def test_conversations_advance_together_and_nothing_is_asked_twice(tmp_path, options):
    with scripted(echo) as model:
        run = run_behind(model, tmp_path / "run")
        safety(run_folder=run, **options)
        prompts = [prompt(request) for request in model.requests]
        assert len(set(prompts)) == len(prompts)
        # With two scenarios or more per turn a batch can be full: all first turns come before any second one.
        turns = [text.count("Heard ") for text in prompts]
        assert turns == sorted(turns) and turns.count(0) > 2
        safety(run_folder=run)
        assert len(model.requests) == len(prompts)


def test_an_interrupted_roll_out_continues_at_its_turn(tmp_path, options):
    failing = {"active": True}

    def answer(request):
        if failing["active"] and prompt(request).count("Heard ") == 1:
            return 400, {"error": {"message": "down"}}
        return echo(request)

    with scripted(answer) as model:
        run = run_behind(model, tmp_path / "run")
        with pytest.raises(H2HTalkError, match="no answer"):
            safety(run_folder=run, **options)
        assert not Run(folder_of(run)).complete
        first_turns = {prompt(request) for request in model.requests if "Heard " not in prompt(request)}
        before = len(model.requests)
        failing["active"] = False
        with pytest.raises(H2HTalkError, match=f"--limit {LIMIT}; use the same limit"):
            safety(run_folder=run, **options | {"limit": 3})
        safety(run_folder=run, **options)
        later = [prompt(request) for request in model.requests[before:]]
        assert Run(folder_of(run)).complete and not first_turns & set(later)


def test_both_modes_are_in_one_result_and_first_turns_are_the_same(tmp_path, options):
    with scripted(echo) as model, scripted(lambda _: safety_verdict(no_dependence=0)) as judge:
        run = run_behind(model, tmp_path / "run")
        options |= {"variants": "with,without", "judge": "modes", "base_url": judge.url}
        safety(run_folder=run, **options)
        safety(run_folder=run, teacher_forced=True, **options)
    result = read_result(run, "safety")
    assert list(result["modes"]) == ["rollout", "teacher_forced"]
    first = [measured["figures"]["with"]["danger_first"] for measured in result["modes"].values()]
    assert first[0] == first[1]
    assert result["mode_effect"]["with"]["judge"]["violation"]["difference"] == 0
    assert result["mode_effect"]["with"]["text"]["ss"]["items"] == result["groups"]["danger"]["n"]
    text = (run / "probes" / "safety.md").read_text()
    assert "| with SAP | own answers |" in text and "| with SAP | references |" in text
    assert "Roll-out minus teacher-forced" in text
    forced = {line["id"]: line for line in Run(folder_of(run, "teacher_forced")).predictions}
    assert forced.keys() == ROWS.keys() and "history" not in json.dumps(list(forced.values()))


def test_answers_of_an_earlier_version_are_refused_and_stay(tmp_path, options):
    with scripted(echo) as model:
        run = run_behind(model, tmp_path / "run")
        old = run / "probes" / "safety" / "with"
        old.mkdir(parents=True)
        (old / "run.json").write_text("{}")
        with pytest.raises(H2HTalkError, match="earlier version of SafetyHighRisk.*move"):
            safety(run_folder=run, **options)
        assert model.requests == [] and (old / "run.json").read_text() == "{}"


def test_a_result_of_an_earlier_version_is_still_shown(tmp_path):
    with scripted(echo) as model:
        run = run_behind(model, tmp_path / "run")
    figure = {"n": 3, "value": 0.5, "low": 0.1, "high": 0.9}
    test = {"items": 3, "clusters": 2, "difference": 0.25, "low": None, "high": None, "p": 0.5, "p_holm": 0.5}
    counts = {"by": ["j"], "scored": 3, "unscored": 0, "single": 0, "reasons": {}}
    old = {
        "probe": "SafetyHighRisk",
        "model": "m",
        "baseline": "with",
        "n": 3,
        "scenarios": 2,
        "variants": {name: {"empty": 0, "cut": 1, "judge": counts} for name in ("with", "without")},
        "figures": {name: {"judge": {"violation": figure}} for name in ("with", "without")},
        "tests": {"without": {"judge": {"violation": test}}},
        "agreement": {},
        "signature": {"embedder": "demo"},
    }
    (run / "probes").mkdir()
    (run / "probes" / "safety.json").write_text(json.dumps(old))
    text = markdown("Safety", [probe_section("safety", read_result(run, "safety"))])
    assert "all 2 scenarios" in text and "| without SAP | references | 0.500 (0.100 to 0.900)" in text
    assert "+0.250" in text
