"""Run folders: what survives, what is refused and why, and who may write."""

import errno
import fcntl
import json
import os

import pytest

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import RunFolder, Settings, generate

MANIFEST = {"model": {"name": "demo", "revision": "1"}, "generation": {"seed": 0}}


def answer(identity, text="yes"):
    return {"id": identity, "prediction": text, "task": "DialogueBase"}


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.open(MANIFEST)
    return run


def test_answers_survive_and_merge_in_the_records_order(folder):
    one, two = folder.shard(0), folder.shard(1)
    one.append([answer("c"), answer("a", "grüß\u2028Gott")])
    two.append([answer("b")])
    assert folder.merge(["a", "b", "c", "d"]) == ["d"]
    assert not folder.predictions_file.exists()
    assert folder.merge(["a", "b", "c"]) == []
    lines = [json.loads(line) for line in folder.predictions_file.read_text().split("\n") if line]
    assert [line["id"] for line in lines] == ["a", "b", "c"]
    assert lines[0]["prediction"] == "grüß\u2028Gott"


def test_a_batch_generated_twice_counts_once(folder):
    for _ in range(2):
        shard = folder.shard(0)
        shard.append([answer("a")])
        shard.close()
    folder.merge(["a"])
    assert folder.predictions_file.read_text().count("\n") == 1


@pytest.mark.parametrize(
    "damage", [b'{"id": "b", "predi', b"\x00\xff\n", b'{"id": "zz", "prediction": "x"}\n', b'{"id": "b"}\n', b"[]\n"]
)
def test_a_damaged_line_is_listed_and_set_aside(folder, damage):
    folder.shard(0).append([answer("a")])
    shard = next((folder.path / "shards").iterdir())
    with shard.open("ab") as handle:
        handle.write(damage)
    answers, notes = folder.answers(["a", "b"])
    assert list(answers) == ["a"]
    assert notes == [f"{shard.name}, line 2: not a prediction of this run"]
    folder.set_aside_damage(["a", "b"])
    assert folder.answers(["a", "b"]) == (answers, [])
    assert (folder.path / "set_aside.jsonl").read_bytes().strip() == damage.strip()


def test_the_same_manifest_opens_again(folder):
    folder.unlock()
    folder.open(json.loads(json.dumps(MANIFEST)))


def test_a_changed_manifest_is_refused_and_each_key_named(folder):
    folder.unlock()
    changed = {"model": {"name": "demo", "revision": "2"}, "generation": {"seed": 1, "top_p": 0.9}}
    with pytest.raises(H2HTalkError) as error:
        folder.open(changed)
    message = str(error.value)
    assert "model.revision: 1 -> 2" in message
    assert "generation.seed: 0 -> 1" in message
    assert "generation.top_p: (not set) -> 0.9" in message
    assert "model.name" not in message
    assert folder.manifest() == MANIFEST


def test_a_folder_with_other_content_is_refused_and_not_changed(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(H2HTalkError, match="is not a run folder"):
        RunFolder(tmp_path).open(MANIFEST)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("left", [[], [".lock"], [".lock", ".run.json.77.part"]])
def test_a_folder_without_a_manifest_yet_can_be_opened(left, tmp_path):
    for name in left:
        (tmp_path / name).touch()
    run = RunFolder(tmp_path)
    run.open(MANIFEST)
    assert run.manifest() == MANIFEST and (tmp_path / "shards").is_dir()


def test_of_two_jobs_that_start_in_one_folder_one_writes_the_manifest(tmp_path):
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    first.lock()  # at work, and its manifest is not written yet
    with pytest.raises(H2HTalkError, match="another job is at work"):
        second.open(MANIFEST)
    assert not second.exists


def test_a_refused_folder_is_not_locked(folder):
    folder.unlock()
    with pytest.raises(H2HTalkError, match="cannot resume .*settings differ from run.json"):
        RunFolder(folder.path).open({"model": {"name": "other"}})
    RunFolder(folder.path).open(MANIFEST)


class Ranks:
    """Two ranks as the first one sees them; `other` says what the second one has."""

    rank, local_rank, world_size, is_main = 0, 0, 2, True

    def __init__(self, other):
        self._other = other

    def all_gather(self, value):
        return [value, self._other(json.loads(json.dumps(value)))]


class Model:
    def prepare(self, prompts):
        return [1] * len(prompts)

    def identity(self):
        return {"name": "m", "revision": "1"}


def test_ranks_started_for_different_runs_are_refused(tmp_path):
    def with_other_revision(value):
        return value | {"model": value["model"] | {"revision": "2"}} if "model" in value else value

    settings = Settings("m", "ItineraryInitialization", 1, batch_size=2)
    with pytest.raises(H2HTalkError, match=r"same options and model.*: model.revision: 1 on rank 0, 2 on rank 1$"):
        generate(settings, tmp_path / "run", Ranks(with_other_revision), engine=Model())
    assert not (tmp_path / "run").exists()


def test_ranks_that_would_wait_for_each_other_forever_are_refused(tmp_path):
    settings = Settings("m", "ItineraryInitialization", 1)
    other = Ranks(lambda value: value | {"engine": "openai"})
    with pytest.raises(H2HTalkError, match="Differences: engine: transformers on rank 0, openai on rank 1$"):
        generate(settings, tmp_path / "run", other, engine=Model())


def test_without_flock_the_lock_of_a_killed_job_is_named(folder, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    folder.unlock()
    lock_file = folder.path / ".lock"
    lock_file.unlink()  # with flock the file alone locks nothing
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.warns(UserWarning, match="flock not supported"):
        folder.lock()
    folder.unlock()
    assert not lock_file.exists()
    lock_file.write_text("123\nanother-node\n")  # left by a job that was killed on that node
    with (
        pytest.warns(UserWarning),
        pytest.raises(H2HTalkError, match=f"another job is at work.*or delete {lock_file} if"),
    ):
        RunFolder(folder.path).lock()


def test_only_rank_0_looks_before_the_folder_is_created(tmp_path, monkeypatch):
    """A network file system may cache on another node that the folder is absent."""

    class SecondRank:
        rank, local_rank, world_size, is_main = 1, 1, 2, False

        def all_gather(self, value):
            raise EOFError  # waits for rank 0

    def fail(self):
        pytest.fail("looked at the folder")

    monkeypatch.setattr(RunFolder, "check_path", fail)
    monkeypatch.setattr(RunFolder, "exists", property(fail))
    with pytest.raises(EOFError):
        generate(Settings("m", "ItineraryInitialization", 1), tmp_path / "run", SecondRank(), engine=Model())


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(H2HTalkError, match="cannot write the run folder"):
        RunFolder(tmp_path / "file" / "run").open(MANIFEST)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(H2HTalkError, match="cannot write the run folder"):
        RunFolder(tmp_path / "run").open(MANIFEST)


def test_a_damaged_manifest_is_named(folder):
    folder.unlock()
    (folder.path / "run.json").write_text("{")
    with pytest.raises(H2HTalkError, match="not valid JSON"):
        folder.open(MANIFEST)


def test_shards_of_another_disk_are_imported_if_they_are_of_the_same_run(folder, tmp_path):
    other, unrelated = RunFolder(tmp_path / "other"), RunFolder(tmp_path / "unrelated")
    other.open(MANIFEST)
    unrelated.open({**MANIFEST, "generation": {"seed": 1}})
    folder.shard(0).append([answer("a")])
    growing = other.shard(1)
    growing.append([answer("b")])
    assert folder.import_shards(other) == 1
    assert folder.import_shards(other) == 0
    assert folder.merge(["a", "b", "c"]) == ["c"]
    growing.append([answer("c")])
    assert folder.import_shards(other) == 1  # the shard has grown since
    with pytest.raises(H2HTalkError, match=r"unrelated is not a part of the run.*generation.seed: 1 -> 0"):
        folder.import_shards(unrelated)
    assert folder.merge(["a", "b", "c"]) == []
    assert folder.predictions_file.read_text().count("\n") == 3
