"""The gates, each shown to be able to fail, and the build."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from h2htalk_datasets import TASKS
from h2htalk_datasets.authors_release import authors_release
from h2htalk_datasets.corpus.build import DATA, build
from h2htalk_datasets.corpus.check import check, check_counts, source_files
from h2htalk_datasets.corpus.checks import record_gates, reference_gates
from h2htalk_datasets.corpus.sources import SOURCES, load_cast, read_sources
from h2htalk_datasets.errors import H2HTalkError

BRAKEWOMAN = SOURCES / "en" / "01-brakewoman.yaml"


@pytest.fixture(scope="module")
def everything():
    return check(source_files(), partial=False)


def test_every_gate_is_green(everything):
    _, gates = everything
    assert not {gate.rule: gate.offenders for gate in gates if not gate.green}


def test_the_cast_has_fifty_rows_none_like_another():
    cast = load_cast()
    assert [row.number for row in cast] == list(range(1, 51))
    for column in ("slug", "companion", "user", "place", "temperament"):
        assert len({getattr(row, column) for row in cast}) == 50, column
    assert sum(row.romantic for row in cast) <= 50 / 3
    assert all(row.slug.startswith(f"{row.number:02d}-") for row in cast)


def test_the_casts_quotas_make_table_1():
    totals = {task: sum(row.quota()[task] for row in load_cast()) for task in TASKS}
    assert totals == {task.name: task.count for task in TASKS.values()}


def test_a_complete_build_refuses_any_count_but_table_1s(tmp_path, everything):
    records, _ = everything
    gate = check_counts(records[:-1], partial=False)
    assert not gate.green
    assert any("Table 1 has 76" in line for line in gate.offenders)
    few = tmp_path / "sources"
    (few / "en").mkdir(parents=True)
    shutil.copy(SOURCES / "cast.yaml", few)
    shutil.copy(BRAKEWOMAN, few / "en")
    with pytest.raises(H2HTalkError, match=r"DialogueBase: 38 records, Table 1 has 1882"):
        build(tmp_path / "out", sources=few)
    assert not (tmp_path / "out").exists()


def test_the_build_is_deterministic_and_the_committed_data_is_its_output(tmp_path):
    import pyarrow
    import pyarrow.parquet

    committed = json.loads((DATA / "en" / "manifest.json").read_text())
    for attempt in ("one", "two"):
        build(tmp_path / attempt)
    one, two = (tmp_path / attempt / "en" for attempt in ("one", "two"))
    assert [f.name for f in sorted(one.iterdir())] == [f.name for f in sorted((DATA / "en").iterdir())]
    for file in sorted(one.iterdir()):
        assert file.read_bytes() == (two / file.name).read_bytes(), file.name
    assert json.loads((one / "manifest.json").read_text()) == committed
    for task in TASKS:
        built, shipped = one / f"{task}.parquet", DATA / "en" / f"{task}.parquet"
        assert pyarrow.parquet.read_table(built).equals(pyarrow.parquet.read_table(shipped)), task
        # Another release of Arrow may lay the same table out in other bytes.
        if pyarrow.parquet.read_metadata(shipped).created_by.endswith(pyarrow.__version__):
            assert built.read_bytes() == shipped.read_bytes(), task


def broken(tmp_path: Path, change) -> Path:
    """A copy of the first relationship with one thing changed."""
    source = yaml.safe_load(BRAKEWOMAN.read_text("utf-8"))
    change(source)
    file = tmp_path / "01-brakewoman.yaml"
    file.write_text(yaml.safe_dump(source, allow_unicode=True, sort_keys=False), "utf-8")
    return file


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda s: s["records"]["DialogueBase"][2].pop("reference"), "records.DialogueBase.2.reference"),
        (lambda s: s["records"]["DialogueBase"][2].update(needd="x"), "records.DialogueBase.2.needd"),
        (lambda s: s["records"]["DialogueBase"][2].update(need="wishful"), "DialogueBase 3: need"),
        (lambda s: s["records"]["DialogueBase"][2].update(difficulty=4), "DialogueBase 3: difficulty"),
        (lambda s: s["records"]["DialogueBase"][2].update(outline="a day"), "DialogueBase 3: outline: does not belong"),
        (
            lambda s: s["records"]["DialogueBase"][0].update(uses=["She likes tea."]),
            "DialogueBase 1: uses: not word for word",
        ),
        (lambda s: s["records"]["DialogueBase"][0]["history"].append({"companion": "Yes."}), "DialogueBase 1: history"),
        (
            lambda s: s["records"]["DialogueSchedule"][0]["schedule"][0].update(current=True),
            "DialogueSchedule 1: schedule",
        ),
        (
            lambda s: s["records"]["DialogueSchedule"][0]["schedule"][0].update(time="23:50"),
            "DialogueSchedule 1: schedule",
        ),
        (lambda s: s["records"]["DialogueEmotion"][0].pop("emotion"), "DialogueEmotion 1: emotion: is missing"),
        (lambda s: s["records"]["ItineraryAdvanced"][0]["slot"].update(time="03:00"), "ItineraryAdvanced 1: slot"),
        (lambda s: s["user"].update(age=17), "user.age"),
        (lambda s: s["memories"][0].update(category="Sport"), "memories.0.category"),
        (lambda s: s["records"].update(DialogueBasic=[]), "DialogueBasic"),
        (lambda s: s.update(id="02-brakewoman"), "id"),
        (lambda s: s.update(id="draft"), "id: "),
    ],
)
def test_a_fault_names_file_record_and_field(tmp_path, change, named):
    _, faults = read_sources([broken(tmp_path, change)])
    assert any(fault.startswith("01-brakewoman.yaml: ") and named in fault for fault in faults), faults


def test_unreadable_yaml_is_named(tmp_path):
    file = tmp_path / "01-brakewoman.yaml"
    file.write_text("id: [unclosed", "utf-8")
    _, faults = read_sources([file])
    assert faults[0].startswith("01-brakewoman.yaml: not readable as YAML")
    file.write_bytes(b"id: \xff")
    _, faults = read_sources([file])
    assert faults[0].startswith("01-brakewoman.yaml: not readable as YAML")


def first(records, task, **changes):
    """The records with the first of a task changed."""
    place = next(i for i, record in enumerate(records) if record.task == task)
    return [r.model_copy(update=changes) if i == place else r for i, r in enumerate(records)]


def every(records, task, **changes):
    return [r.model_copy(update=changes) if r.task.startswith(task) else r for r in records]


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("form and length", lambda r: first(r, "DialogueBase", reference="word " * 41)),
        ("form and length", lambda r: first(r, "ItineraryResponse", reference="One. Two. Three.")),
        ("form and length", lambda r: first(r, "ItineraryMiddle", reference="08:00 Wake")),
        ("form and length", lambda r: first(r, "RecollectionSynthesis", reference="Nothing.")),
        ("form and length", lambda r: first(r, "ItineraryAdvanced", reference="1. 03:00 a\n2. 03:10 b\n3. 03:20 c")),
        ("names in a reference", lambda r: first(r, "DialogueBase", reference="I asked Wilhelmina about it.")),
        ("leaked authoring", lambda r: first(r, "DialogueBase", reference="Gladly, as an AI I can (12 words)")),
        (
            "same 4-gram",
            lambda r: first(
                first(r, "DialogueBase", reference="so we went there after"),
                "DialogueEmotion",
                reference="and then we went there after all",
            ),
        ),
        ("implicit or evolving", lambda r: every(r, "Dialogue", need="explicit")),
        ("3 turns or more", lambda r: [x.model_copy(update={"history": x.history[-1:]}) for x in r]),
        ("under 20 words", lambda r: every(r, "DialogueBase", reference="word " * 25)),
        ("gesture", lambda r: every(r, "Dialogue", reference="(nods) Yes.")),
        ("ends in a question", lambda r: every(r, "Dialogue", reference="And you?")),
        ("semicolon", lambda r: every(r, "Dialogue", reference="Yes; no.")),
        ("names the user", lambda r: [x.model_copy(update={"reference": f"Yes, {x.user}."}) for x in r]),
    ],
)
def test_each_record_gate_can_fail(records, rule, spoil):
    gates = {gate.rule: gate for gate in record_gates(spoil(records))}
    gate = next(gate for name, gate in gates.items() if rule in name)
    assert not gate.green


@pytest.mark.parametrize(
    ("rule", "references"),
    [
        ("exact duplicate", {"DialogueBase": ["Good morning to you.", "Good morning to you."]}),
        ("sentinel, at least", {"RecollectionSynthesis": ["Memory Content: a"] * 20}),
        ("sentinel, at most", {"RecollectionSynthesis": ["No key information extracted."] * 2 + ["Memory Content: a"]}),
        (
            "near duplicates",
            {"DialogueBase": ["We could walk to the old harbour.", "We could walk to the old harbours."]},
        ),
        ("most common opening", {"DialogueBase": [f"I think that we {word}." for word in ("go", "stay", "eat")]}),
        ("distinct-2", {"DialogueBase": ["a b a b a b a b"]}),
        ("stock phrases", {"DialogueBase": ["Take a deep breath, Ana."]}),
    ],
)
def test_each_reference_gate_can_fail(rule, references):
    gate = next(gate for gate in reference_gates(references) if rule in gate.rule)
    assert not gate.green


def test_the_published_release_fails_where_ours_stands(release_folder, everything):
    records, _ = everything
    published = {task: list(data["reference"]) for task, data in authors_release(release_folder).configs.items()}
    ours = {task: [r.reference for r in records if r.task == task] for task in TASKS}
    theirs, mine = ({g.rule: g.figure for g in reference_gates(texts)} for texts in (published, ours))
    rules = ["DialogueBase: near duplicates", "RecollectionSynthesis: near duplicates", "Synthesis sentinel, at most"]
    for rule in ["exact duplicate references in a config", *rules]:
        assert mine[rule] < theirs[rule], rule
    assert not {rule for rule in mine if "near duplicates" in rule and mine[rule] > theirs[rule]}
