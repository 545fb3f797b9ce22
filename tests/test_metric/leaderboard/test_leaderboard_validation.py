"""What the board admits and refuses, with which reason, what it computes again, and fifty submissions at once."""

import gzip
import json
import shutil
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.board_runs import HashedWords, edited, make_run, packed, variant

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.run import Settings, generate
from h2htalk_metric.leaderboard import admission
from h2htalk_metric.leaderboard import submission as form
from h2htalk_metric.leaderboard.board import best_of_brackets, run_board
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.metrics.similarity import DEMO_NAME, Embedder
from h2htalk_metric.runs.scoring import score_run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Eleven records, one of each task."""
    return make_run(tmp_path_factory.mktemp("runs") / "one", "org/Small-1B", limit=1)


@pytest.fixture(scope="module")
def tree(run) -> dict:
    return json.loads(form.read_run(run, "1-8B").model_dump_json())


def _drop_answer(tree):
    del tree["answers"][3]


def _unknown_id(tree):
    tree["answers"][0]["id"] = "en-999-DialogueBase-001"


def _twice(tree):
    tree["answers"].append(tree["answers"][0])


def _other_records(tree):
    tree["manifest"]["dataset"]["fingerprint"] = "0" * 64


def _other_prompts(tree):
    tree["manifest"]["prompts"]["sap"] = []


def _foreign_signature(tree):
    tree["signature"]["dataset"] = "abcdefabcdef"


def _other_rules(tree):
    tree["signature"]["bleu"] = "corpus"


def _better_answer(tree):
    tree["claims"]["tasks"]["ItineraryBasic"]["bleu1"] += 0.05


def _lifted_ss(tree):
    tree["answers"][0]["ss"] = 1.0


def _not_a_number(tree):
    tree["answers"][0]["ss"] = float("nan")


def _hidden_letters(tree):
    tree["model"] = "nice\u202eeman"


def _blank_letters(tree):
    tree["model"] = "\u115f\u3164"


def _tower_of_accents(tree):
    tree["model"] = "e" + "\u0301" * 3


def _no_bracket(tree):
    tree["bracket"] = "huge"


def _nested(tree, levels=230):
    for _ in range(levels):
        tree["manifest"]["model"]["name"] = [tree["manifest"]["model"]["name"]]


def _large(tree):
    tree["manifest"]["note"] = "a" * 64_000


def _many(tree):
    tree["answers"] = [{}] * 100_000


def _long_answer(tree):
    tree["answers"][0]["prediction"] = "a" * 20_001


def _half_a_character(tree):
    tree["answers"][0]["prediction"] += "\ud83d"


def _half_a_name(tree):
    tree["manifest"]["model"]["name"] = "\ud83d"


def _no_software(tree):
    tree["manifest"]["software"] = None


def _listed_software(tree):
    tree["manifest"]["software"] = [1]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (_drop_answer, "RecollectionSynthesis 0 of 1"),
        (_unknown_id, "1 ids are not among the run's records, the first: 'en-999-DialogueBase-001'"),
        (_twice, "1 ids come twice"),
        (_other_records, "made on other records than this board's"),
        (_other_prompts, "prompts are not those"),
        (_foreign_signature, "dataset is 'abcdefabcdef'"),
        (_other_rules, "bleu is 'corpus'"),
        (_better_answer, "ItineraryBasic: bleu1 is claimed as"),
        (_lifted_ss, "DialogueBase: ss is claimed as"),
        (_not_a_number, "no whole JSON"),
        (_hidden_letters, "invisible characters"),
        (_blank_letters, "invisible characters"),
        (_tower_of_accents, "more than 2 combining characters"),
        (_no_bracket, "bracket"),
        (_nested, "nested deeper than 8 levels"),
        (_large, "the limit is 64,000"),
        (_many, "100,000 answers; the whole benchmark has 4,650"),
        (_long_answer, "-DialogueBase-001' has 20,001 characters; the board takes 20,000"),
        (_half_a_character, "-DialogueBase-001' holds half a character"),
        (_half_a_name, "manifest, signature or claims hold half a character"),
        (_no_software, "manifest.software"),
        (_listed_software, "manifest.software"),
    ],
)
def test_refused_with_its_reason(tree, tmp_path, edit, reason):
    storage = Storage(tmp_path, allow_partial=True)
    with pytest.raises(H2HTalkError, match=reason.replace("(", r"\(")):
        storage.submit(edited(tree, edit))
    assert storage.rows() == []


def test_what_could_not_be_read_again_is_not_admitted(tree):
    copy = json.loads(json.dumps(tree))
    _nested(copy)
    with pytest.raises(H2HTalkError, match="can't be kept as JSON"):
        admission.admit(form.Submission.model_validate(copy), allow_partial=True)


def test_unknown_keys_are_dropped_and_not_listed_one_by_one(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    row = storage.submit(edited(tree, lambda t: t["answers"][0].update(dict.fromkeys(map(str, range(300_000))))))
    assert (tmp_path / "submissions" / f"{row.digest}.json.gz").stat().st_size < 20_000


def test_one_unreadable_row_does_not_take_the_board_down(tree, tmp_path, capsys):
    storage = Storage(tmp_path, allow_partial=True)
    bad, good = (storage.submit(variant(tree, number)) for number in range(2))
    open_board = Storage(tmp_path)
    (tmp_path / "rows" / f"{bad.digest}.json").write_text('{"format":2,')
    assert open_board.rows() == open_board.rows() == [good]
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and f"rows/{bad.digest}.json can't be read" in told
    assert len(Storage(tmp_path).rows()) == 2  # made anew at the next start


def test_damage_beside_a_row_does_not_take_the_board_down(tree, tmp_path, capsys):
    Storage(tmp_path, allow_partial=True)
    two = make_run(tmp_path / "two", "org/Small-1B", limit=2)
    row = Storage(tmp_path, allow_partial=True).submit(form.pack(form.read_run(two, "1-8B")))
    open_board = Storage(tmp_path)
    files = [tmp_path / "rows" / f"{row.digest}.npy", tmp_path / "samples" / f"{row.digest}.json"]
    whole = [file.read_bytes() for file in files]
    for file in files:
        file.write_bytes(file.read_bytes()[:50])
    assert [shown.key for shown in run_board(open_board.rows(), open_board)] == [row.digest]
    assert f"rows/{row.digest}.npy can't be read" in capsys.readouterr().err
    with pytest.raises(H2HTalkError, match=f"samples/{row.digest}.json can't be read .*; a restart makes it anew"):
        open_board.samples(row.digest)
    Storage(tmp_path)
    assert [file.read_bytes() for file in files] == whole


def test_a_run_that_was_taken_off_can_be_submitted_anew_while_the_board_runs(tree, tmp_path):
    board, other = Storage(tmp_path, allow_partial=True), Storage(tmp_path, allow_partial=True)
    row = board.submit(packed(tree))
    assert [shown.bracket for shown in board.rows()] == [shown.bracket for shown in other.rows()] == ["1-8B"]
    with pytest.raises(H2HTalkError, match=f"keeper first deletes submissions/{row.digest}.json.gz"):
        board.submit(packed(tree, bracket="32B+"))
    (tmp_path / "submissions" / f"{row.digest}.json.gz").unlink()
    again = board.submit(packed(tree, bracket="32B+", model="Renamed"))
    assert again.digest == row.digest
    for storage in (board, other):
        assert [(shown.model, shown.bracket) for shown in storage.rows()] == [("Renamed", "32B+")]


def test_a_run_that_was_left_off_may_be_sent_again(tree, tmp_path, monkeypatch, capsys):
    open_board = Storage(tmp_path, allow_partial=True)
    row = open_board.submit(packed(tree))
    assert open_board.rows() == [row]
    (tmp_path / "rows" / f"{row.digest}.json").unlink()
    assert open_board.rows() == []
    with monkeypatch.context() as changed:
        changed.setattr(admission, "_fingerprint", lambda *_: "0" * 64)  # the dataset has changed
        board = Storage(tmp_path, allow_partial=True)
        assert board.rows() == [] and "left off the board" in capsys.readouterr().err
    assert board.submit(packed(tree, model="Again")).digest == row.digest  # and has changed back
    assert [shown.model for shown in board.rows()] == ["Again"]


def test_a_file_that_is_not_named_by_its_answers_is_told(tree, tmp_path, capsys):
    row = Storage(tmp_path, allow_partial=True).submit(packed(tree))
    (tmp_path / "submissions" / f"{row.digest}.json.gz").rename(tmp_path / "submissions" / "qwen7b.json.gz")
    assert Storage(tmp_path).rows() == []
    assert f"qwen7b.json.gz: files here are named by their answers; rename it {row.digest}" in capsys.readouterr().err


def test_a_board_that_cannot_be_written_says_so(tree, tmp_path):
    storage = Storage(tmp_path / "board", allow_partial=True)
    (tmp_path / "board" / "samples").rmdir()
    (tmp_path / "board" / "samples").write_text("")
    with pytest.raises(H2HTalkError, match=r"can't write the board's folder .*board \(.*\); nothing was kept"):
        storage.submit(packed(tree))
    assert storage.rows() == []


def test_partial_runs_need_leave(tree, tmp_path):
    with pytest.raises(H2HTalkError, match="partial run of 11 records"):
        Storage(tmp_path).submit(packed(tree))


def test_the_same_answers_come_once_under_any_name(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    storage.submit(packed(tree))
    blanks = edited(tree, lambda t: t["answers"][0].update(prediction=t["answers"][0]["prediction"] + " \n"))
    for content in (packed(tree, model="Another"), blanks):
        with pytest.raises(H2HTalkError, match="on the board already, as 'Small-1B'"):
            storage.submit(content)


def test_size_limits(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    bomb = gzip.compress(b" " * (form.MAX_UNPACKED + 1))
    assert len(bomb) < 1_000_000
    with pytest.raises(H2HTalkError, match="unpacks to more than 16 MB"):
        storage.submit(bomb)
    with pytest.raises(H2HTalkError, match=r"has 20\.0 MB"):
        storage.submit(b"\0" * (form.MAX_PACKED + 1))
    with pytest.raises(H2HTalkError, match="not gzipped"):
        storage.submit(b"PK\x03\x04")


def test_lost_and_old_rows_are_made_again(tree, tmp_path):
    row = Storage(tmp_path, allow_partial=True).submit(packed(tree))
    file = tmp_path / "rows" / f"{row.digest}.json"
    file.unlink()
    assert Storage(tmp_path).rows() == [row]
    old = file.read_text().replace(f'{{"format":{row.format}', '{"format":1', 1)
    file.write_text(old)
    assert Storage(tmp_path).rows() == [row] and file.read_text() != old
    (tmp_path / "submissions" / f"{row.digest}.json.gz").unlink()  # taken off by its keeper
    assert Storage(tmp_path).rows() == []


@pytest.fixture
def demo_stood_in(monkeypatch):
    """The demo embedder's name leads to the hashed words that the runs of these tests were scored with."""
    monkeypatch.setattr(admission, "load_embedder", lambda _: Embedder(DEMO_NAME, HashedWords(), flag=False))
    admission.recomputable.cache_clear()
    yield
    admission.recomputable.cache_clear()


def _by_demo(tree):
    tree["signature"]["embedder"] = DEMO_NAME


def _ss_off(tree, by):
    _by_demo(tree)
    for line in tree["claims"]["tasks"].values():
        line["ss"] += by
        line["composite"] += by / 7


def test_a_board_that_begins_to_recompute_does_so_with_stored_runs(tree, tmp_path, demo_stood_in):
    claimed = Storage(tmp_path, allow_partial=True).submit(edited(tree, _by_demo))
    assert claimed.ss == "claimed"
    recomputed = Storage(tmp_path, recompute_ss=True).rows()
    assert [row.ss for row in recomputed] == ["recomputed"]
    assert recomputed[0].cells == pytest.approx(claimed.cells)


def test_a_recomputed_row_is_made_anew_when_the_board_embeds_otherwise(tree, tmp_path, demo_stood_in, monkeypatch):
    sent = edited(tree, lambda t: (_by_demo(t), t["signature"].update(embedder_precision="float16")))
    first = Storage(tmp_path, allow_partial=True, recompute_ss=True).submit(sent)
    assert first.setup["precision"] == "" and first.signature["embedder_precision"] == "float16"
    here = Embedder(DEMO_NAME, HashedWords(), flag=False, precision="float32")
    monkeypatch.setattr(admission, "load_embedder", lambda _: here)
    (anew,) = Storage(tmp_path, recompute_ss=True).rows()
    assert anew.setup == first.setup | {"precision": "float32"} and anew.cells == first.cells
    (claimed,) = Storage(tmp_path).rows()
    assert claimed == anew  # a board that recomputes nothing shows it as it is


def test_an_embedder_that_the_board_lacks_is_its_own_affair(tree, tmp_path, demo_stood_in, monkeypatch, capsys):
    def missing(_):
        raise H2HTalkError("the demo embedder is not installed")

    monkeypatch.setattr(admission, "load_embedder", missing)
    row = Storage(tmp_path, allow_partial=True, recompute_ss=True).submit(edited(tree, _by_demo))
    assert row.ss == "claimed" and Storage(tmp_path, recompute_ss=True).rows() == [row]
    assert capsys.readouterr().err.count("can't be computed again here: the demo embedder is not installed") == 1


def test_a_run_that_does_not_stand_up_to_recomputing_leaves_the_board(tree, tmp_path, monkeypatch, capsys):
    row = Storage(tmp_path, allow_partial=True).submit(edited(tree, _by_demo))

    class Alike(HashedWords):
        def encode(self, texts, **_):
            return np.ones((len(texts), 2))

    monkeypatch.setattr(admission, "load_embedder", lambda _: Embedder(DEMO_NAME, Alike(), flag=False))
    assert Storage(tmp_path, recompute_ss=True).rows() == []
    assert f"left off the board: {row.digest}.json.gz: DialogueBase: ss is claimed as" in capsys.readouterr().err
    assert Storage(tmp_path).rows() == [row]  # the submission was kept, so the claimed row comes back


def test_ss_may_differ_as_half_and_single_precision_do(tree, tmp_path, demo_stood_in):
    content = edited(tree, lambda t: _ss_off(t, 0.004))
    assert Storage(tmp_path / "again", allow_partial=True, recompute_ss=True).submit(content).ss == "recomputed"
    with pytest.raises(H2HTalkError, match="ss is claimed as"):
        Storage(tmp_path / "trusting", allow_partial=True).submit(content)
    with pytest.raises(H2HTalkError, match="ss is claimed as"):
        storage = Storage(tmp_path / "far", allow_partial=True, recompute_ss=True)
        storage.submit(edited(tree, lambda t: _ss_off(t, 0.006)))


def test_where_the_board_recomputes_claimed_rows_have_no_place(tree, tmp_path, demo_stood_in):
    Storage(tmp_path, allow_partial=True).submit(packed(tree))
    trusting, recomputing = Storage(tmp_path), Storage(tmp_path, recompute_ss=True)  # of an embedder it doesn't know
    for storage, place in ((trusting, 1), (recomputing, None)):
        (row,) = run_board(storage.rows(), storage)
        assert row.claimed and best_of_brackets([row])[row.key].get("Overall") == place


def test_a_runs_half_character_is_put_right_and_a_long_answer_named(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    summary = json.loads((copy / "score.json").read_text())
    del summary["answers"]  # their digest; else they would have to be scored again
    (copy / "score.json").write_text(json.dumps(summary))
    lines = (copy / "predictions.jsonl").read_text().splitlines()
    for text, ending in (("\ud83d", "\ufffd"), ("a" * 20_000, None)):
        line = json.loads(lines[0])
        line["prediction"] += text
        (copy / "predictions.jsonl").write_text("\n".join([json.dumps(line), *lines[1:]]) + "\n")
        if ending:
            assert form.unpack(form.pack(form.read_run(copy, "1-8B"))).answers[0].prediction.endswith(ending)
        else:
            with pytest.raises(H2HTalkError, match=rf"'{line['id']}' has 20,\d+ characters"):
                form.read_run(copy, "1-8B")


def _submit(work):
    folder, content = work
    try:
        return Storage(folder, allow_partial=True).submit(content).digest
    except H2HTalkError as error:
        return str(error)


def test_fifty_at_once_none_lost_none_twice(tree, tmp_path):
    contents = [variant(tree, number) for number in range(50)]
    with ProcessPoolExecutor(2) as processes, ThreadPoolExecutor(20) as threads:
        # Every one is sent three times at once: by another process, and by two threads of this one.
        storage = Storage(tmp_path, allow_partial=True)
        outside = [processes.submit(_submit, (tmp_path, content)) for content in contents]

        def send(content):
            try:
                return storage.submit(content).digest
            except H2HTalkError as error:
                return str(error)

        results = [*threads.map(send, contents * 2), *(future.result() for future in outside)]
    assert sum("already" in result for result in results) == 100
    assert len({result for result in results if "already" not in result}) == 50
    rows = Storage(tmp_path).rows()
    assert sorted(row.model for row in rows) == [f"Model-{number:04}" for number in range(50)]


@pytest.mark.slow
def test_ss_of_a_real_run_is_recomputed_where_the_board_can(tiny_model, tmp_path):
    run = tmp_path / "run"
    generate(Settings(model=str(tiny_model), limit=1), run)
    score_run(run, "demo")
    content = form.pack(form.read_run(run, "1-8B"))
    row = Storage(tmp_path / "board", allow_partial=True, recompute_ss=True).submit(content)
    assert row.ss == "recomputed"
    tree = json.loads(gzip.decompress(content))
    for line in tree["answers"]:  # a lie that agrees with itself
        line["ss"] = 0.99 if line["prediction"].strip() else 0.0
        means = tree["claims"]["tasks"][line["id"].split("-")[2]]
        means["composite"] += (line["ss"] - means["ss"]) / 7
        means["ss"] = line["ss"]
    lied = packed(tree)
    assert Storage(tmp_path / "trusting", allow_partial=True).submit(lied).ss == "claimed"
    with pytest.raises(H2HTalkError, match="ss is claimed as 99.00 but the answers give"):
        Storage(tmp_path / "strict", allow_partial=True, recompute_ss=True).submit(lied)
