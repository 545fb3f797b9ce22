"""The checks of the probe sets: they pass, and each is shown to be able to fail."""

import pytest
from helpers.commands import h2htalk

from h2htalk_datasets import load
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.loading import manifest
from h2htalk_datasets.probes import PROBES, load_probe
from h2htalk_datasets.probes.checks import check_probe_sets, check_probes
from h2htalk_datasets.probes.schema import probe_rows, read_probes
from h2htalk_datasets.schema import Turn


@pytest.fixture(scope="module")
def sources():
    return {name: read_probes(name) for name in PROBES}


def test_every_check_passes():
    assert not {check.rule: check.offenders for check in check_probes() if not check.passed}


def test_the_command_runs_the_checks():
    checked = h2htalk("corpus", "check", "--probes")
    assert checked.returncode == 0, checked.stderr
    assert "checks passed for the probe sets" in checked.stdout
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
    """Both sets with one probe changed."""
    sets = [[p.model_copy(update=update) if p.id == identity else p for p in sources[name]] for name in PROBES]
    assert sets != [sources[name] for name in PROBES]
    return sets


def without(sources, identity):
    return [[p for p in sources[name] if p.id != identity] for name in PROBES]


def failures(safety, following, benchmark=None):
    checks = check_probe_sets(safety, following, benchmark or {})
    return {check.rule: "\n".join(check.offenders) for check in checks if not check.passed}


def user(text):
    return [Turn(role="user", content=text)]


CRISIS = "en-safety-oyster-shed-2"
IMPLICIT = "en-following-soup-in-the-lift"
CONTROLS = "an explicit control has another wording than its record"


@pytest.mark.parametrize(
    ("identity", "update", "rule", "named"),
    [
        (
            CRISIS,
            {"must": ["Asks how he is.", "asks how he is."]},
            "requirements and criteria",
            "the same sentence twice",
        ),
        (CRISIS, {"must": ["be nice"]}, "requirements and criteria", "not a sentence: 'be nice'"),
        (CRISIS, {"reference": "Ring 112."}, "references of 5", "2 words"),
        (CRISIS, {"reference": "Walk out of the shed and ring 911 now."}, "telephone numbers", "911 is not in"),
        (CRISIS, {"must": ["Names 0800 111 0 111."]}, "telephone numbers", "0800 111 0 111 is not in"),
        (IMPLICIT, {"reference": "Call 0800 123 456 and order soup."}, "telephone numbers", "0800 123 456"),
        (CRISIS, {"reference": "I'd be better dead and Ita would have the insurance."}, "no requirement or", CRISIS),
        (CRISIS, {"stage": "after"}, "danger rises", "the stages are opening, after, crisis"),
        (CRISIS, {"stage": "opening"}, "danger rises", "must open once"),
        ("en-safety-verse-three-2", {"stage": "crisis"}, "danger rises", "a crisis without danger"),
        (CRISIS, {"history": user("Hello.")}, "each interaction", f"{CRISIS}: does not continue"),
        (CRISIS, {"id": "en-safety-oyster-shed-1"}, "every id occurs once", "2 times"),
    ],
)
def test_an_error_in_one_probe_is_named(sources, identity, update, rule, named):
    failed = failures(*changed(sources, identity, **update))
    assert named in next(offenders for name, offenders in failed.items() if name.startswith(rule))


def test_a_control_with_the_same_wording_is_named(sources):
    own = next(p for p in sources["InstructionFollowing"] if p.id == IMPLICIT)
    failed = failures(*changed(sources, f"{IMPLICIT}-explicit", history=own.history))
    assert f"{IMPLICIT}: its control has the same last turn" in failed[CONTROLS]


def test_a_context_aware_record_without_earlier_turns_is_named(sources):
    own = next(p for p in sources["InstructionFollowing"] if p.id == "en-following-ward-round-in-ten")
    (named,) = failures(*changed(sources, own.id, history=own.history[-1:])).values()
    assert named == f"{own.id}: has no earlier turn"


def test_a_missing_probe_changes_the_counts(sources):
    (counts,) = failures(*without(sources, "en-safety-oyster-shed-6")).values()
    assert counts == "SafetyHighRisk interactions: 149, expected 150"
    failed = failures(*without(sources, "en-following-last-bus-from-clinic"))
    assert (
        "context_aware: 59, expected 60"
        in failed["counts: 27 dangerous and 6 harmless scenarios, 150 interactions, four times 60"]
    )


def test_a_kind_without_a_probe_is_named(sources):
    safety = [p for p in sources["SafetyHighRisk"] if p.kind != "eating_disorder"]
    following = [p for p in sources["InstructionFollowing"] if not (p.kind == "context_aware" and p.emotion == "anger")]
    missing = failures(safety, following)["every kind, emotion and implicitness occurs"]
    assert missing == "SafetyHighRisk: no eating_disorder\ncontext_aware: no anger"


def test_near_duplicates_are_named(sources):
    other = next(p for p in sources["SafetyHighRisk"] if p.id == "en-safety-bonsai-labels-2")
    failed = failures(*changed(sources, CRISIS, reference=other.reference + " Please."))
    assert "Labels, bank book" in failed["SafetyHighRisk, references: near duplicates"]
    talk = next(p for p in sources["InstructionFollowing"] if p.id == "en-following-organist-spoiler").history
    failed = failures(*changed(sources, "en-following-mill-lane-bridge", history=talk))
    assert "lighthouse keeper" in failed["InstructionFollowing, histories: near duplicates"]


def test_a_probe_in_a_config_is_named(sources):
    """As a reference, as history, and as a persona."""
    probe = next(p for p in sources["SafetyHighRisk"] if p.id == CRISIS)
    sets = [sources[name] for name in PROBES]
    blank = {"id": "en-001-DialogueBase-001", "reference": "Yes.", "persona": "", "history": []}
    rule = "no 9 words in a row from the benchmark"
    assert not failures(*sets, {"DialogueBase": [blank]})
    for leak in (
        {"reference": probe.reference},
        {"history": [turn.model_dump() for turn in probe.history]},
        {"persona": probe.persona},
        {"reference": "Delete this. Stay near the street door. 133 if he starts. Don't answer me."},
    ):
        assert rule in failures(*sets, {"DialogueBase": [blank | leak]}), leak
    short = next(p for p in sources["InstructionFollowing"] if p.id == "en-following-no-egg-from-now")
    assert rule in failures(
        sets[0],
        [p.model_copy(update={"reference": "Yes."}) if p is short else p for p in sets[1]],
        {"DialogueBase": [blank]},
    )
    row = load("DialogueBase")[0]
    with_record = [p.model_copy(update={"reference": row["reference"]}) if p is probe else p for p in sets[0]]
    assert CRISIS in failures(with_record, sets[1], {"DialogueBase": [row]})[rule]
