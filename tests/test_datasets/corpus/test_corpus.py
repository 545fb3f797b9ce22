"""The checks, each shown to be able to fail, and the build."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from datasets import List, Value

from h2htalk_datasets import TASKS
from h2htalk_datasets.authors_release import authors_release
from h2htalk_datasets.corpus.build import DATA, build
from h2htalk_datasets.corpus.checks import check_corpus, check_counts, check_records, check_references
from h2htalk_datasets.corpus.sources import SOURCES, load_cast, read_sources, source_files
from h2htalk_datasets.corpus.speech import check_speech, commands
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.schema import features

BRAKEWOMAN = SOURCES / "en" / "01-brakewoman.yaml"


@pytest.fixture(scope="module")
def everything():
    return check_corpus(source_files(), partial=False)


def test_every_check_passes(everything):
    _, checks = everything
    assert not {check.rule: check.offenders for check in checks if not check.passed}


def test_the_cast_has_fifty_different_rows():
    cast = load_cast()
    assert [row.number for row in cast] == list(range(1, 51))
    for column in ("slug", "companion", "user", "place", "temperament"):
        assert len({getattr(row, column) for row in cast}) == 50, column
    assert sum(row.romantic for row in cast) <= 50 / 3
    assert all(row.slug.startswith(f"{row.number:02d}-") for row in cast)


def test_the_quotas_of_the_cast_add_up_to_table_1():
    totals = {task: sum(row.quota()[task] for row in load_cast()) for task in TASKS}
    assert totals == {task.name: task.count for task in TASKS.values()}


def test_a_complete_build_needs_the_counts_of_table_1(tmp_path, everything):
    records, _ = everything
    counts = check_counts(records[:-1], partial=False)
    assert not counts.passed
    assert any("Table 1 has 76" in line for line in counts.offenders)
    few = tmp_path / "sources"
    (few / "en").mkdir(parents=True)
    shutil.copy(BRAKEWOMAN, few / "en")
    with pytest.raises(H2HTalkError, match=r"DialogueBase: 38 records, Table 1 has 1882"):
        build(tmp_path / "out", sources=few)
    assert not (tmp_path / "out").exists()


def test_the_build_gives_the_shipped_data(tmp_path):
    """Byte for byte, so two builds are equal too."""
    import pyarrow
    import pyarrow.parquet

    committed = json.loads((DATA / "en" / "manifest.json").read_text())
    build(tmp_path)
    folder = tmp_path / "en"
    assert [f.name for f in sorted(folder.iterdir())] == [f.name for f in sorted((DATA / "en").iterdir())]
    assert json.loads((folder / "manifest.json").read_text()) == committed
    for task in TASKS:
        built, shipped = folder / f"{task}.parquet", DATA / "en" / f"{task}.parquet"
        assert pyarrow.parquet.read_table(built).equals(pyarrow.parquet.read_table(shipped)), task
        # Another version of Arrow may write the same table as other bytes.
        if pyarrow.parquet.read_metadata(shipped).created_by.endswith(pyarrow.__version__):
            assert built.read_bytes() == shipped.read_bytes(), task


def changed_source(tmp_path: Path, change) -> Path:
    """A copy of the first relationship with one change."""
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
        (lambda s: s["records"]["DialogueBase"][2].update(points=list("abcd")), "records.DialogueBase.2.points"),
        (lambda s: s["records"]["ItineraryBasic"][0].update(points=["a"]), "ItineraryBasic 1: points: does not belong"),
        (lambda s: s["records"]["ItineraryBasic"][0].update(alternatives=[" "]), "ItineraryBasic.0.alternatives.0"),
        (lambda s: s.update(id="02-brakewoman"), "id"),
        (lambda s: s.update(id="draft"), "id: "),
    ],
)
def test_an_error_names_file_record_and_field(tmp_path, change, named):
    _, errors = read_sources([changed_source(tmp_path, change)])
    assert any(error.startswith("01-brakewoman.yaml: ") and named in error for error in errors), errors


def test_unreadable_yaml_is_named(tmp_path):
    file = tmp_path / "01-brakewoman.yaml"
    file.write_text("id: [unclosed", "utf-8")
    _, errors = read_sources([file])
    assert errors[0].startswith("01-brakewoman.yaml: not readable as YAML")
    file.write_bytes(b"id: \xff")
    _, errors = read_sources([file])
    assert errors[0].startswith("01-brakewoman.yaml: not readable as YAML")


def test_points_and_alternatives_are_columns(tmp_path):
    def change(source):
        source["records"]["DialogueBase"][0].update(points=["Says when."], alternatives=["At noon.", "Noon."])

    records, errors = read_sources([changed_source(tmp_path, change)])
    assert not errors
    record = next(record for record in records if record.task == "DialogueBase")
    assert (record.points, record.alternatives) == (["Says when."], ["At noon.", "Noon."])
    columns = features()
    assert columns["points"] == columns["alternatives"] == List(Value("string"))


def first(records, task, **changes):
    """The records with the first one of a task changed."""
    index = next(i for i, record in enumerate(records) if record.task == task)
    return [r.model_copy(update=changes) if i == index else r for i, r in enumerate(records)]


def every(records, task, **changes):
    return [r.model_copy(update=changes) if r.task.startswith(task) else r for r in records]


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("format and length", lambda r: first(r, "DialogueBase", reference="word " * 41)),
        ("format and length", lambda r: first(r, "ItineraryResponse", reference="One. Two. Three.")),
        ("format and length", lambda r: first(r, "ItineraryMiddle", reference="08:00 Wake")),
        ("format and length", lambda r: first(r, "RecollectionSynthesis", reference="Nothing.")),
        ("format and length", lambda r: first(r, "DialogueBase", alternatives=["Yes.", "word " * 41])),
        ("format and length", lambda r: first(r, "ItineraryAdvanced", reference="1. 03:00 a\n2. 03:10 b\n3. 03:20 c")),
        ("names in a reference", lambda r: first(r, "DialogueBase", reference="I asked Wilhelmina about it.")),
        ("leaked authoring", lambda r: first(r, "DialogueBase", reference="Gladly, as an AI I can (12 words)")),
        (
            "no 4-gram",
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
def test_each_check_of_records_can_fail(records, rule, change):
    assert not next(check for check in check_records(change(records)) if rule in check.rule).passed


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
def test_each_check_of_references_can_fail(rule, references):
    assert not next(check for check in check_references(references) if rule in check.rule).passed


def test_the_published_release_repeats_itself_more(release_folder, everything):
    records, _ = everything
    published = {task: list(data["reference"]) for task, data in authors_release(release_folder).configs.items()}
    ours = {task: [r.reference for r in records if r.task == task] for task in TASKS}
    theirs = {check.rule: check.value for check in check_references(published, "zh")}
    mine = {check.rule: check.value for check in check_references(ours)}
    rules = ["DialogueBase: near duplicates", "RecollectionSynthesis: near duplicates", "Synthesis sentinel, at most"]
    for rule in ["exact duplicate references of a task", *rules]:
        assert mine[rule] < theirs[rule], rule
    assert not {rule for rule in mine if "near duplicates" in rule and mine[rule] > theirs[rule]}


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("fifteen emotions", lambda r: first(r, "DialogueEmotion", emotion="pride")),
        ("feeling word", lambda r: first(r, "DialogueEmotion", reference="Tell me what happened then.")),
        ("3 to 9 turns", lambda r: first(r, "DialogueEmotion", history=r[0].history[-1:])),
        ("content points", lambda r: first(r, "ItineraryResponse", points=[])),
        ("has a command", lambda r: every(r, "Dialogue", reference="Sit down.")),
        ("has a question", lambda r: every(r, "Dialogue", reference="Yes.")),
        ("more than two names", lambda r: every(r, "Dialogue", reference="I saw Ann, then Bea, then Carl.")),
        (
            "distinctive phrase",
            lambda r: [x.model_copy(update={"reference": "my purple umbrella sings"}) for x in r],
        ),
    ],
)
def test_each_check_of_speech_can_fail(records, rule, change):
    assert not next(check for check in check_speech(change(records), partial=True) if rule in check.rule).passed


def test_a_complete_corpus_needs_five_records_of_each_emotion(records):
    (check,) = [check for check in check_speech(records, partial=False) if "fifteen emotions" in check.rule]
    assert any(line.endswith("at least 5") for line in check.offenders)


def test_commands_are_imperatives_at_the_start_of_a_sentence():
    assert commands("Oh, sit down first. I sit here often. (nods) Call her tonight.") == [
        "Oh, sit down first.",
        "Call her tonight.",
    ]
    assert commands("Call her? You could sit down. He said to wait.") == []
