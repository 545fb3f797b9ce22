"""Runs through an OpenAI-compatible server: complete under faults, resumable, no key on disk, and a real server."""

import json
import threading
import time
from dataclasses import replace

import pytest
from helpers.servers import FAULTS, completion, faulty, llama, scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import Settings, generate
from h2htalk_datasets.generation.requests import chosen_rows

CHOSEN = {"tasks": "DialogueBase,ItineraryResponse,RecollectionSynthesis", "limit": 20}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")


def settings(url, **more):
    return Settings(model="m", base_url=url, max_connections=8, **CHOSEN, **more)


def echo(request):
    return "I heard: " + request["messages"][-1]["content"][-40:]


def lines(file):
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_a_run_sends_the_records_and_settings(tmp_path):
    with scripted(echo) as server:
        file = generate(settings(server.url, seed=3), tmp_path / "run")
    rows = chosen_rows(**CHOSEN)
    assert [line["id"] for line in lines(file)] == [row["id"] for row in rows]
    sent = {request["messages"][-1]["content"]: request for request in server.requests}
    assert len(server.requests) == len(sent) == len(rows) == 60
    for row, line in zip(rows, lines(file), strict=True):
        request = sent[row["messages"][-1]["content"]]
        assert request["messages"] == row["messages"]
        assert line["prediction"] == echo(request).strip()
        assert (request["temperature"], request["top_p"]) == (0.0, 1.0)
        assert 0 <= request["seed"] < 2**31
    manifest = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert manifest["model"] == {"engine": "openai", "name": "m", "server": server.url, "revision": "unknown"}


def test_no_key_in_the_run_folder(tmp_path, capfd):
    with scripted(echo) as server:
        generate(settings(server.url), tmp_path / "run")
        assert server.headers[-1]["authorization"] == "Bearer sk-very-secret"
        generate(settings(server.url.replace("http://", "http://user:pass-word@")), tmp_path / "named")
        assert server.headers[-1]["authorization"].startswith("Basic ")
    out = "".join(capfd.readouterr())
    for file in tmp_path.rglob("*"):
        if file.is_file():
            out += file.read_text("utf-8")
    assert "secret" not in out and "pass-word" not in out


def test_the_answers_are_the_same_though_thirty_per_cent_of_requests_fail(tmp_path):
    with scripted(echo) as server:
        clean = generate(settings(server.url), tmp_path / "clean").read_bytes()
        with faulty(server.url, 0.3, seed=1) as proxy:
            retried = generate(settings(proxy.url, timeout=1.0), tmp_path / "retried").read_bytes()
    assert retried == clean
    assert set(proxy.faults) == set(FAULTS)
    shards = [line for shard in (tmp_path / "retried" / "shards").iterdir() for line in lines(shard)]
    assert len(shards) == len({line["id"] for line in shards}) == 60


@pytest.mark.parametrize("batch_size", [None, 4])
def test_failed_prompts_are_listed_and_sent_again_by_the_next_run(batch_size, tmp_path):
    broken = [True]
    options = settings("", batch_size=batch_size)

    def answer(request):
        if broken[0] and len(request["messages"][-1]["content"]) % 3 == 0:
            return 400, {"error": {"message": "the prompt is too long"}}
        return echo(request)

    with scripted(answer) as server:
        with pytest.raises(H2HTalkError, match=r"\d+ prompts have no answer.*the prompt is too long"):
            generate(replace(options, base_url=server.url), tmp_path / "run")
        failures = lines(tmp_path / "run" / "failures.jsonl")
        assert 0 < len(failures) < 60
        assert not (tmp_path / "run" / "predictions.jsonl").exists()
        before, broken[0] = len(server.requests), False
        assert before == 60
        file = generate(replace(options, base_url=server.url), tmp_path / "run")
        assert len(server.requests) - before == len(failures)  # nothing else was sent again
    assert len(lines(file)) == 60
    assert not (tmp_path / "run" / "failures.jsonl").exists()


def test_a_filtered_reply_is_an_answer(tmp_path):
    def answer(request):
        kind = len(request["messages"][-1]["content"]) % 3
        refusal = {"error": {"message": "The response was filtered", "param": "prompt", "code": "content_filter"}}
        return [(400, refusal), completion("It begins", finish="content_filter"), echo(request)][kind]

    with scripted(answer) as server:
        file = generate(settings(server.url), tmp_path / "run")
        assert len(server.requests) == 60
    for row, line in zip(chosen_rows(**CHOSEN), lines(file), strict=True):
        kind = len(row["messages"][-1]["content"]) % 3
        assert line["finish_reason"] == ("content_filter", "content_filter", "stop")[kind]
        assert line["prediction"].startswith(("", "It begins", "I heard")[kind])
    assert {line["prediction"] for line in lines(file)} > {"", "It begins"}
    assert not (tmp_path / "run" / "failures.jsonl").exists()


def openai_rejects(field, text):
    return 400, {"error": {"message": f"Unsupported {text}", "param": field, "code": "unsupported_parameter"}}


def test_rejected_fields_are_renamed_or_left_out_once(tmp_path, capfd):
    extra = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 3}

    def answer(request):
        if "max_tokens" in request:
            text = "parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
            return openai_rejects("max_tokens", text)
        if "seed" in request:  # in Mistral's words
            return 422, {"object": "error", "message": {"detail": [extra]}, "param": None, "code": None}
        return echo(request)

    with scripted(answer) as server:
        file = generate(settings(server.url), tmp_path / "run")
        assert len(server.requests) <= 60 + 2 * 8  # only the first concurrent requests were rejected
    assert len(lines(file)) == 60
    printed = [line for line in capfd.readouterr().err.splitlines() if "rejects" in line]
    assert printed == [
        f"{server.url} rejects the field max_tokens; from now on it is sent as max_completion_tokens",
        f"{server.url} rejects the field seed; from now on it is left out",
    ]
    accepted = {"model", "messages", "max_completion_tokens", "temperature", "top_p"}
    assert sum(set(request) == accepted for request in server.requests) == 60  # the others were rejected


def test_a_rejected_temperature_ends_the_run_at_once_and_names_the_option(tmp_path):
    def answer(request):
        if "temperature" in request:
            text = f"value: 'temperature' does not support {request['temperature']:g} with this model."
            return openai_rejects("temperature", text)
        return echo(request)

    with scripted(answer) as server:
        with pytest.raises(H2HTalkError, match="rejects temperature 0; use --temperature 1"):
            generate(settings(server.url), tmp_path / "run")
        assert len(server.requests) <= 8
        assert len(lines(generate(settings(server.url, temperature=1.0), tmp_path / "other"))) == 60


def test_the_system_text_can_be_folded(tmp_path):
    with scripted(echo) as server:
        generate(settings(server.url, fold_system=True), tmp_path / "run")
        with pytest.raises(H2HTalkError, match=r"model.fold_system: True -> \(not set\)"):
            generate(settings(server.url), tmp_path / "run")
    row = chosen_rows(**CHOSEN)[0]
    system, user = row["messages"][0]["content"], row["messages"][1]["content"]
    assert [{"role": "user", "content": f"{system}\n\n{user}"}] in [request["messages"] for request in server.requests]
    assert not any(message["role"] == "system" for request in server.requests for message in request["messages"])


def test_a_rejected_key_ends_the_run_at_once(tmp_path):
    with scripted(lambda r: (401, {"error": {"message": "no"}})) as server:
        with pytest.raises(H2HTalkError, match="rejects the API key"):
            generate(settings(server.url), tmp_path / "run")
        assert len(server.requests) <= 8


def test_requests_overlap_up_to_the_limit(tmp_path):
    lock, full, running, most = threading.Lock(), threading.Event(), [0], [0]

    def answer(request):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
            if running[0] == 8:
                full.set()
        full.wait(10)
        time.sleep(0.05)  # a ninth, if there were one, would come meanwhile
        with lock:
            running[0] -= 1
        return echo(request)

    with scripted(answer) as server:
        generate(settings(server.url), tmp_path / "run")
    assert most[0] == 8


def test_thoughts_are_stored_with_the_answer(tmp_path):
    body = completion("<think>hm</think>Yes.")
    body["choices"][0]["message"]["reasoning_content"] = "first"
    with scripted(lambda r: body) as server:
        file = generate(settings(server.url, thinking_tokens=100), tmp_path / "run")
    assert {(line["prediction"], line["reasoning"]) for line in lines(file)} == {("Yes.", "first\n\nhm")}
    limits = {request["max_tokens"] for request in server.requests}
    manifest = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))["generation"]
    assert limits == set(manifest["max_new_tokens"].values())
    assert min(limits) > 100


@pytest.mark.very_slow
@pytest.mark.slow
def test_a_real_server(tmp_path):
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed; make .venv/llama compiles it")
    with llama() as server:
        small = Settings(
            model="demo",
            base_url=server.url,
            tasks="DialogueBase,ItineraryResponse",
            limit=3,
            max_connections=2,
            timeout=300,
        )
        file = generate(small, tmp_path / "run")
        predictions = lines(file)
        assert len(predictions) == 6
        for line in predictions:
            assert line["prediction"]
            assert line["prompt_tokens"] > 500  # the persona is in it
            assert line["finish_reason"] in ("stop", "length")
        again = generate(small, tmp_path / "run")
    assert lines(again) == predictions
