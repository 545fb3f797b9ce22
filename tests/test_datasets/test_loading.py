import json
import sys

import pytest
from helpers.commands import h2htalk, run

import h2htalk_datasets
from h2htalk_datasets import TASKS, load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.loading import manifest
from h2htalk_datasets.probes import load_probe
from h2htalk_datasets.schema import Record
from h2htalk_datasets.tasks import MEMORY, PROBE_SETS


@pytest.mark.parametrize("task", TASKS)
def test_a_task_loads_completely(task):
    rows = load(task)
    assert len(rows) == manifest()["counts"][task] == TASKS[task].count
    assert fingerprint(rows) == manifest()["fingerprints"][task]
    assert len(set(rows["id"])) == len(rows)
    for row in rows:
        Record.model_validate(row)
        assert row["messages"]
        assert row["reference"].strip()


def test_an_unknown_task_is_named():
    with pytest.raises(H2HTalkError, match="Did you mean DialogueBase"):
        load("DialogBase")
    with pytest.raises(H2HTalkError, match="unknown task 'all'"):
        load("all")


def test_an_unknown_language_and_a_set_without_it_are_named():
    with pytest.raises(H2HTalkError, match="unknown language 'de'. The languages are: en, zh"):
        load("DialogueBase", "de")
    with pytest.raises(H2HTalkError, match="no records of SafetyHighRisk in the language 'zh'; there are: en"):
        load_probe("SafetyHighRisk", "zh")


def test_the_package_is_a_dataset_repository():
    from datasets import get_dataset_config_names, load_dataset

    folder = str(h2htalk_datasets.path())
    assert get_dataset_config_names(folder) == [*TASKS, *(f"{task}-zh" for task in TASKS), *PROBE_SETS, MEMORY]
    rows = load_dataset(folder, "ItineraryMiddle", split="test")
    assert fingerprint(rows) == manifest()["fingerprints"]["ItineraryMiddle"]
    chinese = load_dataset(folder, "ItineraryMiddle-zh", split="test")
    assert fingerprint(chinese) == manifest("zh")["fingerprints"]["ItineraryMiddle"]
    for name in PROBE_SETS:
        rows = load_dataset(folder, name)
        assert list(rows) == ["test"]
        assert rows["test"].to_list() == load_probe(name).to_list()


def test_bare_names_resolve_after_prepare(tmp_path):
    """In new processes, from an empty folder, with an empty cache and without the Hub."""
    import os

    home = {"env": os.environ | {"HF_HOME": str(tmp_path / "home")}, "cwd": tmp_path}
    for _ in range(2):
        prepared = h2htalk("prepare", **home)
        assert prepared.returncode == 0, prepared.stderr
    code = (
        "import json, evaluate; from datasets import load_dataset, get_dataset_config_names;"
        "print(json.dumps([load_dataset('h2htalk', 'ItineraryMiddle')['test'].num_rows,"
        " load_dataset('h2htalk', 'ItineraryMiddle-zh')['test'].num_rows,"
        " load_dataset('h2htalk', 'DialogueEmotion', split='test')[0]['task'],"
        " *[load_dataset('h2htalk', probe)['test'][0]['messages'][1]['role'] for probe in"
        " ('SafetyHighRisk', 'InstructionFollowing', 'CompanionPlanning')]]));"
        "metric = evaluate.load('h2htalk', 'ItineraryMiddle');"
        "print(json.dumps(metric.compute(predictions=['hello there'], references=['hello there'], embedder='demo')))"
    )
    done = run(sys.executable, "-c", code, **home)
    loaded, scored = map(json.loads, done.stdout.splitlines()[-2:])
    counts = [manifest(language)["counts"]["ItineraryMiddle"] for language in ("en", "zh")]
    assert loaded == [*counts, "DialogueEmotion", "user", "user", "user"], done.stderr
    assert scored["bleu1"] == scored["rougeL"] == 1.0
    assert scored["n"] == 1


def test_register_resolves_the_bare_name_in_this_process():
    import datasets

    original = datasets.load.dataset_module_factory
    try:
        h2htalk_datasets.register()
        h2htalk_datasets.register()
        assert len(datasets.load_dataset("h2htalk", "DialogueEmotion", split="test")) == len(load("DialogueEmotion"))
        for name in PROBE_SETS:
            rows = datasets.load_dataset("h2htalk", name, split="test")
            assert fingerprint(rows) == manifest()["probes"]["fingerprints"][name]
    finally:
        datasets.load.dataset_module_factory = original


def test_the_published_release_is_mapped_to_the_tasks(release_folder):
    release = h2htalk_datasets.authors_release(release_folder)
    assert {task: len(rows) for task, rows in release.configs.items()} == {
        task.name: 41 if task.name == "RecollectionInitialization" else task.count for task in TASKS.values()
    }
    assert all(row["messages"] is None and row["language"] == "zh" for row in release.configs["DialogueBase"])
    notes = "\n".join(release.notes)
    assert "RecollectionInitialization: 41 of 102" in notes
    assert "swapped contents" in notes


def lines(*texts):
    return "".join(json.dumps({"response": text}) + "\n" for text in texts)


def test_the_notes_of_a_partial_release_name_what_is_missing(tmp_path):
    (tmp_path / "itinerary_initialize.jsonl").write_text(lines("a", "b", "c"))
    (tmp_path / "dialogue_schedule.jsonl").write_text(lines("d"))
    release = h2htalk_datasets.authors_release(tmp_path)
    assert list(release.configs["DialogueSchedule"]["reference"]) == ["a", "b", "c"]
    assert list(release.configs["ItineraryInitialization"]["reference"]) == ["d"]
    assert any(note.startswith("DialogueBase: 0 of 1882") for note in release.notes)
    assert any("prompt templates but not the values" in note for note in release.notes)


def test_a_folder_without_the_release_is_an_error(tmp_path):
    with pytest.raises(H2HTalkError, match="none of the published files"):
        h2htalk_datasets.authors_release(tmp_path)


def test_an_invalid_line_is_named(tmp_path):
    (tmp_path / "dialogue_base.jsonl").write_text(lines("a") + '{"answer": 1}\n')
    with pytest.raises(H2HTalkError, match=r"dialogue_base\.jsonl, line 2"):
        h2htalk_datasets.authors_release(tmp_path)


def test_the_examples_on_the_card_are_records():
    import re

    card = (h2htalk_datasets.path() / "README.md").read_text("utf-8")
    examples = re.findall(r"### (\w+)\n.*?`(en-[\w-]+)`.*?```text\n(.*?)\n```.*?```text\n(.*?)\n```", card, re.DOTALL)
    assert [name for name, *_ in examples] == [*TASKS, *PROBE_SETS]
    for name, identity, prompt, reference in examples:
        rows = load(name) if name in TASKS else load_probe(name)
        row = next(row for row in rows if row["id"] == identity)
        assert (prompt, reference) == (row["messages"][1]["content"], row["reference"])
