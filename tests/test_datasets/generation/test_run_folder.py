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


def test_a_batch_done_twice_counts_once(folder):
    for _ in range(2):
        shard = folder.shard(0)
        shard.append([answer("a")])
        shard.close()
    folder.merge(["a"])
    assert folder.predictions_file.read_text().count("\n") == 1


@pytest.mark.parametrize(
    "damage", [b'{"id": "b", "predi', b"\x00\xff\n", b'{"id": "zz", "prediction": "x"}\n', b'{"id": "b"}\n', b"[]\n"]
)
def test_a_corrupt_line_is_named_set_aside_and_asked_again(folder, damage):
    folder.shard(0).append([answer("a")])
    shard = next((folder.path / "shards").iterdir())
    with shard.open("ab") as handle:
        handle.write(damage)
    answers, notes = folder.answers(["a", "b"])
    assert list(answers) == ["a"]
    assert notes == [f"{shard.name}, line 2: not a prediction of this run"]
    folder.set_damage_aside(["a", "b"])
    assert folder.answers(["a", "b"]) == (answers, [])
    assert (folder.path / "set_aside.jsonl").read_bytes().strip() == damage.strip()


def test_the_same_manifest_opens_again(folder):
    folder.unlock()
    folder.open(json.loads(json.dumps(MANIFEST)))


def test_a_changed_manifest_is_refused_key_by_key(folder):
    folder.unlock()
    changed = {"model": {"name": "demo", "revision": "2"}, "generation": {"seed": 1, "top_p": 0.9}}
    with pytest.raises(H2HTalkError) as error:
        folder.open(changed)
    message = str(error.value)
    assert "model.revision: 1 -> 2" in message
    assert "generation.seed: 0 -> 1" in message
    assert "generation.top_p: (nothing) -> 0.9" in message
    assert "model.name" not in message
    assert folder.manifest() == MANIFEST


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(H2HTalkError, match="no run folder"):
        RunFolder(tmp_path).open(MANIFEST)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("left", [[], [".lock"], [".lock", ".run.json.77.part"]])
def test_a_folder_left_before_its_manifest_is_begun_again(left, tmp_path):
    for name in left:
        (tmp_path / name).touch()
    run = RunFolder(tmp_path)
    run.open(MANIFEST)
    assert run.manifest() == MANIFEST and (tmp_path / "shards").is_dir()


def test_of_two_jobs_that_begin_a_folder_one_says_what_it_is(folder, monkeypatch):
    other = RunFolder(folder.path)
    monkeypatch.setattr(RunFolder, "begun", property(lambda self: False))  # as seen before the first has written
    monkeypatch.setattr(RunFolder, "refuse_foreign", lambda self: None)
    with pytest.raises(H2HTalkError, match="another job is at work"):
        other.open({"model": {"name": "other"}})
    assert folder.manifest() == MANIFEST


def test_a_refused_folder_is_not_kept_from_others(folder):
    folder.unlock()
    with pytest.raises(H2HTalkError, match="holds another run"):
        RunFolder(folder.path).open({"model": {"name": "other"}})
    RunFolder(folder.path).open(MANIFEST)


def test_ranks_started_for_different_runs_are_refused(tmp_path):
    class FirstRank:
        rank, local_rank, world_size, first = 0, 0, 2, True

        def gather(self, value):
            other = json.loads(json.dumps(value))
            if "model" in other:
                other["model"]["revision"] = "2"
            return [value, other]

    class Model:
        def prepare(self, prompts):
            return [1] * len(prompts)

        def identity(self):
            return {"name": "m", "revision": "1"}

    settings = Settings("m", "ItineraryInitialization", 1, batch_size=2)
    with pytest.raises(H2HTalkError, match=r"give all nodes the same. model.revision: 1 on rank 0, 2 on rank 1$"):
        generate(settings, tmp_path / "run", FirstRank(), engine=Model())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("differing", "told"),
    [
        ({"split": "static"}, "split: queue on rank 0, static on rank 1"),
        ({"batch_size": None}, "batch_size: 2 on rank 0, None on rank 1"),
        ({"base_url": True}, "base_url: False on rank 0, True on rank 1"),
    ],
)
def test_ranks_that_would_go_on_in_other_ways_are_refused_before_they_wait(differing, told, tmp_path):
    class FirstRank:
        rank, local_rank, world_size, first = 0, 0, 2, True

        def gather(self, value):
            return [value, value | differing]

    class Model:
        def prepare(self, prompts):
            return [1] * len(prompts)

    settings = Settings("m", "ItineraryInitialization", 1, batch_size=2)
    with pytest.raises(H2HTalkError, match=f"give all nodes the same. {told}$"):
        generate(settings, tmp_path / "run", FirstRank(), engine=Model())


def test_where_flock_is_missing_a_left_lock_is_named(folder, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    folder.unlock()
    left = folder.path / ".lock"
    left.unlink()  # of a lock with flock only the file's name is left, which means nothing
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.warns(UserWarning, match="flock not supported"):
        folder.lock()
    folder.unlock()
    assert not left.exists()
    left.write_text("123\nanother-node\n")  # as a job leaves it that was killed there
    with pytest.warns(UserWarning), pytest.raises(H2HTalkError, match=f"another job is at work.*or delete {left} if"):
        RunFolder(folder.path).lock()


def test_only_the_first_rank_looks_before_the_folder_is_made(tmp_path, monkeypatch):
    """What another node's file system has once not found, it may not find for a while."""

    class SecondRank:
        rank, local_rank, world_size, first = 1, 1, 2, False

        def gather(self, value):
            raise EOFError  # met the others: rank 0 has looked

    class Model:
        def prepare(self, prompts):
            return [1] * len(prompts)

    def looked(self):
        pytest.fail("looked")

    monkeypatch.setattr(RunFolder, "refuse_foreign", looked)
    monkeypatch.setattr(RunFolder, "begun", property(looked))
    with pytest.raises(EOFError):
        generate(Settings("m", "ItineraryInitialization", 1), tmp_path / "run", SecondRank(), engine=Model())


def test_a_folder_that_cant_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(H2HTalkError, match="can't write the run folder"):
        RunFolder(tmp_path / "file" / "run").open(MANIFEST)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(H2HTalkError, match="can't write the run folder"):
        RunFolder(tmp_path / "run").open(MANIFEST)


def test_a_damaged_manifest_is_named(folder):
    folder.unlock()
    (folder.path / "run.json").write_text("{")
    with pytest.raises(H2HTalkError, match="not readable as JSON"):
        folder.open(MANIFEST)


def test_folders_of_two_disks_come_together_and_foreign_ones_do_not(folder, tmp_path):
    other, foreign = RunFolder(tmp_path / "other"), RunFolder(tmp_path / "foreign")
    other.open(MANIFEST)
    foreign.open({**MANIFEST, "generation": {"seed": 1}})
    folder.shard(0).append([answer("a")])
    growing = other.shard(1)
    growing.append([answer("b")])
    assert folder.take_in(other) == 1
    assert folder.take_in(other) == 0
    assert folder.merge(["a", "b", "c"]) == ["c"]
    growing.append([answer("c")])
    assert folder.take_in(other) == 1  # the shard has grown since
    with pytest.raises(H2HTalkError, match=r"foreign holds another run.*generation.seed: 1 -> 0"):
        folder.take_in(foreign)
    assert folder.merge(["a", "b", "c"]) == []
    assert folder.predictions_file.read_text().count("\n") == 3
