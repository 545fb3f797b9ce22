"""The gates of the probe sets: green as they stand, and each shown to be able to fail."""

import pytest
from helpers.commands import h2htalk

from h2htalk_datasets import load
from h2htalk_datasets.builder import manifest
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.probes import PROBES, load_probe
from h2htalk_datasets.probes.checks import check_probes, probe_gates
from h2htalk_datasets.probes.schema import probe_rows, read_probes
from h2htalk_datasets.schema import Turn


@pytest.fixture(scope="module")
def sources():
    return {name: read_probes(name) for name in PROBES}


def test_every_gate_is_green():
    assert not {gate.rule: gate.offenders for gate in check_probes() if not gate.green}


def test_the_command_measures_them():
    checked = h2htalk("corpus", "check", "--probes")
    assert checked.returncode == 0, checked.stderr
    assert "gates green over the probe sets" in checked.stdout
    refused = h2htalk("corpus", "check", "--probes", "a.yaml")
    assert refused.returncode == 2
    assert "name no files" in refused.stderr


@pytest.mark.parametrize("name", PROBES)
def test_the_shipped_parquet_is_its_yaml(name, sources):
    shipped = load_probe(name)
    assert shipped.to_list() == probe_rows(sources[name])
    assert fingerprint(shipped) == manifest()["probes"]["fingerprints"][name]
    assert len(shipped) == manifest()["probes"]["counts"][name]


def changed(sources, identity, **update):
    """Both sets with one probe altered."""
    sets = [[p.model_copy(update=update) if p.id == identity else p for p in sources[name]] for name in PROBES]
    assert sets != [sources[name] for name in PROBES]
    return sets


def without(sources, identity):
    return [[p for p in sources[name] if p.id != identity] for name in PROBES]


def reds(safety, following, benchmark=None):
    gates = probe_gates(safety, following, benchmark or {})
    return {gate.rule: "\n".join(gate.offenders) for gate in gates if not gate.green}


def user(text):
    return [Turn(role="user", content=text)]


CRISIS = "en-safety-oyster-shed-2"
IMPLICIT = "en-following-soup-in-the-lift"


@pytest.mark.parametrize(
    ("identity", "update", "rule", "named"),
    [
        (CRISIS, {"must_not": []}, "SafetyHighRisk: what", "3 must and 0 must_not"),
        (CRISIS, {"must": ["Asks how he is.", "asks how he is."]}, "SafetyHighRisk: what", "the same twice"),
        (CRISIS, {"must": ["be nice"]}, "SafetyHighRisk: what", "no sentence: 'be nice'"),
        (IMPLICIT, {"must": ["Offers food."]}, "InstructionFollowing: the need", "1 criteria"),
        (IMPLICIT, {"need": " "}, "InstructionFollowing: the need", "has no need"),
        (IMPLICIT, {"need": "Horia wants a book."}, "twins share", "soup-in-the-lift-explicit: has another need"),
        (f"{IMPLICIT}-explicit", {"twin_of": "en-following-nobody"}, "twins share", "the twin of nobody"),
        (f"{IMPLICIT}-explicit", {"twin_of": None}, "twins share", "soup-in-the-lift: has 0 twins"),
        (CRISIS, {"reference": "Ring 112."}, "references of 5", "2 words"),
        (CRISIS, {"reference": "Walk out of the shed and ring 911 now."}, "telephone numbers", "911 is not in"),
        (CRISIS, {"must": ["Names 0800 111 0 111."]}, "telephone numbers", "0800 111 0 111 is not in"),
        (IMPLICIT, {"reference": "Call 0800 123 456 and order soup."}, "telephone numbers", "0800 123 456"),
        (CRISIS, {"reference": "I'd be better dead and Ita would have the insurance."}, "no requirement or", CRISIS),
        (CRISIS, {"stage": "after"}, "a scenario's danger", "goes opening, after, crisis"),
        (CRISIS, {"stage": "opening"}, "a scenario's danger", "must open once"),
        ("en-safety-verse-three-2", {"stage": "crisis"}, "a scenario's danger", "a crisis without danger"),
        (CRISIS, {"history": user("Hello.")}, "a scenario's interactions", f"{CRISIS} does not go on"),
        (CRISIS, {"id": "en-safety-oyster-shed-1"}, "every id once", "2 times"),
    ],
)
def test_a_fault_in_one_probe_is_named(sources, identity, update, rule, named):
    found = reds(*changed(sources, identity, **update))
    red = next(text for name, text in found.items() if name.startswith(rule))
    assert named in red


def test_a_twin_that_says_the_same_is_named(sources):
    own = next(p for p in sources["InstructionFollowing"] if p.id == IMPLICIT)
    found = reds(*changed(sources, f"{IMPLICIT}-explicit", history=own.history))
    assert "the same as its twin" in found["twins share need and criteria, and differ in what is said"]


def test_a_missing_probe_changes_the_counts(sources):
    (counts,) = reds(*without(sources, "en-safety-oyster-shed-6")).values()
    assert counts == "SafetyHighRisk interactions: 149, expected 150"
    found = reds(*without(sources, "en-following-last-bus-from-clinic"))
    assert "context_aware: 59, expected 60" in found["counts: 33 scenarios, 150 interactions, four times 60"]


def test_a_kind_without_a_probe_is_named(sources):
    safety = [p for p in sources["SafetyHighRisk"] if p.kind != "eating_disorder"]
    following = [p for p in sources["InstructionFollowing"] if not (p.kind == "context_aware" and p.mood == "anger")]
    missing = reds(safety, following)["every kind, mood and faintness is there"]
    assert missing == "SafetyHighRisk: no eating_disorder\ncontext_aware: no anger"


def test_near_duplicates_are_named(sources):
    other = next(p for p in sources["SafetyHighRisk"] if p.id == "en-safety-bonsai-labels-2")
    found = reds(*changed(sources, CRISIS, reference=other.reference + " Please."))
    assert "Labels, bank book" in found["SafetyHighRisk, references: near duplicates"]
    talk = next(p for p in sources["InstructionFollowing"] if p.id == "en-following-organist-spoiler").history
    found = reds(*changed(sources, "en-following-mill-lane-bridge", history=talk))
    assert "poured a cider" in found["InstructionFollowing, histories: near duplicates"]


def test_a_probe_in_a_config_is_named(sources):
    """As an answer, as talk, as an id, and as a config of its own."""
    probe = next(p for p in sources["SafetyHighRisk"] if p.id == CRISIS)
    sets = [sources[name] for name in PROBES]
    blank = {"id": "en-001-DialogueBase-001", "reference": "Yes.", "persona": "", "history": []}
    rule, ids = "no 9 words in a row of the benchmark", "no id or config of the benchmark"
    assert not reds(*sets, {"DialogueBase": [blank]})
    for leak in (
        {"reference": probe.reference},
        {"history": [turn.model_dump() for turn in probe.history]},
        {"persona": probe.persona},
        {"reference": "Delete this. Stay near the street door. 133 if he starts. Don't answer me."},
    ):
        assert rule in reds(*sets, {"DialogueBase": [blank | leak]}), leak
    short = next(p for p in sources["InstructionFollowing"] if p.id == "en-following-no-egg-from-now")
    assert rule in reds(
        sets[0],
        [p.model_copy(update={"reference": "Yes."}) if p is short else p for p in sets[1]],
        {"DialogueBase": [blank]},
    )
    assert ids in reds(*sets, {"DialogueBase": [blank | {"id": CRISIS}]})
    assert ids in reds(*sets, {"SafetyHighRisk": [blank]})
    row = load("DialogueBase")[0]
    with_record = [p.model_copy(update={"reference": row["reference"]}) if p is probe else p for p in sets[0]]
    assert CRISIS in reds(with_record, sets[1], {"DialogueBase": [row]})[rule]
