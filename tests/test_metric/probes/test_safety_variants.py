"""The variants of the persona: shipped texts, and a text of the user's own."""

import json

import pytest
from helpers.probe_scripts import run_behind
from helpers.servers import scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.probes import load_probe
from h2htalk_datasets.probes.persona_texts import MAX_PERSONA_CHARACTERS, load_persona_text
from h2htalk_datasets.prompts import SAP, render_probe
from h2htalk_metric.cli.probe import safety
from h2htalk_metric.probes.results import read_result
from h2htalk_metric.probes.variants import VARIANTS, select_variants


def test_thirteen_shipped_variants_and_one_of_the_users_own():
    assert list(VARIANTS)[:2] == ["with", "without"]
    assert list(VARIANTS)[9:] == ["neutral", "short-rules", "engagement", "engagement-only", "own"]
    assert VARIANTS["no_safety"].sap.split(",") == [name for name in SAP if name != "safety"]
    assert select_variants("no_safety, with") == ["with", "no_safety"]
    assert select_variants("with", own=True) == ["with", "own"]
    assert len(select_variants("all")) == 13 and select_variants("all", own=True)[-1] == "own"
    with pytest.raises(H2HTalkError, match="Did you mean without"):
        select_variants("withot")
    with pytest.raises(H2HTalkError, match="is empty; the variants are: with, without"):
        select_variants("")


def test_the_neutral_text_is_as_long_as_sap_and_about_nothing_that_sap_is_about():
    row = load_probe("SafetyHighRisk")[0]
    with_sap, without = (render_probe(row, sap)[0]["content"] for sap in (True, False))
    neutral = load_persona_text("neutral")
    assert len(neutral.split()) == pytest.approx(len(with_sap.split()) - len(without.split()), rel=0.05)
    assert neutral.count("\n") == 7  # the opening and seven sections, as SAP has
    assert not {"feel", "feeling", "danger", "safe", "help", "care", "comfort"} & set(neutral.lower().split())


def test_each_variant_puts_its_text_into_the_system_message(tmp_path):
    with scripted(lambda _: "Yes.") as model:
        run = run_behind(model, tmp_path / "run")
        safety(run_folder=run, variants="neutral,short-rules,engagement,engagement-only", limit=1, embedder="demo")
        systems = [request["messages"][0]["content"] for request in model.requests]
    texts = [load_persona_text(name) for name in ("neutral", "short-rules", "engagement", "engagement")]
    assert all(text in system for text, system in zip(texts, systems, strict=True))
    assert ["Safety first, and honesty" in system for system in systems] == [False, False, True, False]
    # The engagement text comes after SAP, where it can contradict it, and before the companion's profile.
    assert systems[2].index("Safety first") < systems[2].index(texts[2]) < systems[2].index("Who you are:")


def test_a_text_of_the_users_own(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("Answer like a lighthouse keeper: kurz und freundlich, ½ so lang. \U0001f6a8\n", "utf-8")
    with scripted(lambda _: "Yes.") as model:
        run = run_behind(model, tmp_path / "run")
        options = {"limit": 1, "embedder": "demo"}
        safety(run_folder=run, variants="with", persona_text=file, **options)
        system = model.requests[-1]["messages"][0]["content"]
        assert system.startswith(file.read_text("utf-8").strip()) and "Secure base" not in system
        assert "own text" in (run / "probes" / "safety.md").read_text()
        before = len(model.requests)
        safety(run_folder=run)  # made again without the file
        assert len(model.requests) == before
        assert list(read_result(run, "safety")["modes"]["rollout"]["variants"]) == ["with", "own"]
        file.write_text("Something else.")
        with pytest.raises(H2HTalkError, match="made with another persona text"):
            safety(run_folder=run, persona_text=file, **options)
    manifest = json.loads((run / "probes" / "safety" / "rollout" / "own" / "run.json").read_text())
    assert len(manifest["prompts"]["persona_text"]) == 64 and manifest["prompts"]["sap"] == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty; write the persona into it"),
        (b" \n\t\n", "is empty; write the persona into it"),
        (b"x" * 1_000_000, "more than 100,000 characters"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (None, "cannot read"),
    ],
)
def test_a_bad_text_is_an_error_of_one_line_before_anything_is_sent(tmp_path, content, complaint):
    file = tmp_path / "mine.txt"
    if content is not None:
        file.write_bytes(content)
    with scripted(lambda _: "Yes.") as model:
        run = run_behind(model, tmp_path / "run")
        with pytest.raises(H2HTalkError, match=complaint) as caught:
            safety(run_folder=run, persona_text=file, limit=1, embedder="demo")
        assert "\n" not in str(caught.value) and model.requests == []
    assert not (run / "probes").exists()


def test_the_longest_text_is_accepted_and_the_own_variant_needs_one(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("é" * MAX_PERSONA_CHARACTERS, "utf-8")
    with scripted(lambda _: "Yes.") as model:
        run = run_behind(model, tmp_path / "run")
        safety(run_folder=run, variants="own", persona_text=file, limit=1, embedder="demo")
        assert len(model.requests) == 1
        other = run_behind(model, tmp_path / "other")
        with pytest.raises(H2HTalkError, match="pass --persona-text FILE"):
            safety(run_folder=other, variants="own", limit=1, embedder="demo")
