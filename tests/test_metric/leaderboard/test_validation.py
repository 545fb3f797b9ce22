"""What the board accepts and refuses, with which reason, and what it computes again."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.board_runs import HashedWords, edited, make_run, packed

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.config import Settings
from h2htalk_datasets.generation.run import generate
from h2htalk_metric.leaderboard import submission as file_format
from h2htalk_metric.leaderboard.board import best_of_brackets, run_board
from h2htalk_metric.leaderboard.from_run import make_submission
from h2htalk_metric.leaderboard.storage import Storage
from h2htalk_metric.metrics.similarity import DEMO_NAME, Embedder
from h2htalk_metric.runs.scoring import score_run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Eleven records, one per task."""
    return make_run(tmp_path_factory.mktemp("runs") / "one", "org/Small-1B", limit=1)


@pytest.fixture(scope="module")
def tree(run) -> dict:
    return json.loads(make_submission(run, "1-8B").model_dump_json())


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


def _beyond_float(tree):
    tree["manifest"]["model"]["size"] = "1e999"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (_drop_answer, "RecollectionSynthesis 0 of 1"),
        (_unknown_id, "1 ids are not among the records of the run, the first: 'en-999-DialogueBase-001'"),
        (_twice, "1 ids occur twice"),
        (_other_records, "answers other records than this board's"),
        (_other_prompts, "prompts are not those"),
        (_foreign_signature, "dataset is 'abcdefabcdef'"),
        (_other_rules, "bleu is 'corpus'"),
        (_better_answer, "ItineraryBasic: bleu1 is claimed as"),
        (_lifted_ss, "DialogueBase: ss is claimed as"),
        (_not_a_number, "not valid JSON"),
        (_hidden_letters, "invisible characters"),
        (_blank_letters, "invisible characters"),
        (_tower_of_accents, "more than 2 combining characters"),
        (_no_bracket, "bracket"),
        (_nested, "nested deeper than 8 levels"),
        (_large, "the limit is 64,000"),
        (_many, "100,000 answers; the full benchmark has 4,650"),
        (_long_answer, "-DialogueBase-001' has 20,001 characters; the limit is 20,000"),
        (_half_a_character, "-DialogueBase-001' contains a lone surrogate"),
        (_half_a_name, "manifest, signature or claims cannot be stored as JSON"),
        (_no_software, "manifest.software"),
        (_listed_software, "manifest.software"),
    ],
)
def test_refused_with_its_reason(tree, tmp_path, edit, reason):
    storage = Storage(tmp_path, allow_partial=True)
    with pytest.raises(H2HTalkError, match=reason.replace("(", r"\(")):
        storage.submit(edited(tree, edit))
    assert storage.rows() == [] and not (tmp_path / "rows.jsonl").exists()


def test_a_number_beyond_a_float_is_refused_since_it_could_not_be_read_again(tree, tmp_path):
    content = edited(tree, _beyond_float)
    raw = gzip.decompress(content).replace(b'"1e999"', b"1e999")
    with pytest.raises(H2HTalkError, match="cannot be stored as JSON"):
        Storage(tmp_path, allow_partial=True).submit(gzip.compress(raw))


def test_what_is_accepted_can_be_read_again(tree):
    submission = file_format.unpack(
        edited(tree, lambda t: t["manifest"]["model"].update(seed=10**4000, note="\u0000 ünïcode \U0001f600"))
    )
    assert file_format.unpack(file_format.pack(submission)) == submission


def test_unknown_keys_are_dropped_and_not_listed_one_by_one(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    row = storage.submit(edited(tree, lambda t: t["answers"][0].update(dict.fromkeys(map(str, range(300_000))))))
    assert (tmp_path / "submissions" / f"{row.digest}.json.gz").stat().st_size < 20_000


def test_the_first_format_of_a_submission_is_still_read(tree):
    claims = {key: value for key, value in tree["claims"].items() if key != "claimed_only"}
    old = tree | {"format": 1, "claims": claims | {"beside": {"judge": {"tau": 3.5}}}}
    assert file_format.parse(old).claims.claimed_only == {"judge": {"tau": 3.5}}
    with pytest.raises(H2HTalkError, match="format"):
        file_format.parse(tree | {"format": 3})
    with pytest.raises(H2HTalkError, match="claims"):
        file_format.parse(tree | {"format": 1, "claims": []})


def test_partial_runs_are_refused_by_default(tree, tmp_path):
    with pytest.raises(H2HTalkError, match="partial run of 11 records"):
        Storage(tmp_path).submit(packed(tree))


def test_size_limits(tree, tmp_path):
    storage = Storage(tmp_path, allow_partial=True)
    bomb = gzip.compress(b" " * (file_format.MAX_UNPACKED + 1))
    assert len(bomb) < 1_000_000
    with pytest.raises(H2HTalkError, match="unpacks to more than 16 MB"):
        storage.submit(bomb)
    with pytest.raises(H2HTalkError, match=r"has 20\.0 MB"):
        storage.submit(b"\0" * (file_format.MAX_PACKED + 1))
    with pytest.raises(H2HTalkError, match="not gzipped"):
        storage.submit(b"PK\x03\x04")


def test_a_lone_surrogate_of_a_run_is_replaced_and_a_long_answer_refused(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    summary = json.loads((copy / "score.json").read_text())
    del summary["answers_digest"]  # else the run would have to be scored again
    (copy / "score.json").write_text(json.dumps(summary))
    lines = (copy / "predictions.jsonl").read_text().splitlines()
    for text, ending in (("\ud83d", "\ufffd"), ("a" * 20_000, None)):
        line = json.loads(lines[0])
        line["prediction"] += text
        (copy / "predictions.jsonl").write_text("\n".join([json.dumps(line), *lines[1:]]) + "\n")
        if ending:
            submission = file_format.unpack(file_format.pack(make_submission(copy, "1-8B")))
            assert submission.answers[0].prediction.endswith(ending)
        else:
            with pytest.raises(H2HTalkError, match=rf"'{line['id']}' has 20,\d+ characters"):
                make_submission(copy, "1-8B")


HASHED = HashedWords().encode


def recomputing(folder, encode=HASHED, precision=None, allow_partial=False):
    """A board that computes SS again, with an embedder in place of the demo's."""

    def load(name):
        return Embedder(name, encode, precision=precision)

    return Storage(folder, allow_partial=allow_partial, recompute_ss=True, load=load)


def _by_demo(tree):
    tree["signature"]["embedder"] = DEMO_NAME


def _ss_off(tree, by):
    _by_demo(tree)
    for line in tree["claims"]["tasks"].values():
        line["ss"] += by
        line["composite"] += by / 7


def test_a_board_that_starts_to_recompute_does_so_with_stored_runs(tree, tmp_path):
    claimed = Storage(tmp_path, allow_partial=True).submit(edited(tree, _by_demo))
    assert claimed.ss == "claimed"
    (recomputed,) = recomputing(tmp_path).rows()
    assert recomputed.ss == "recomputed" and recomputed.cells == pytest.approx(claimed.cells)
    assert recomputed.memory_labels == pytest.approx(claimed.memory_labels)


def test_a_recomputed_row_is_computed_again_with_another_embedder(tree, tmp_path):
    content = edited(tree, lambda t: (_by_demo(t), t["signature"].update(embedder_precision="float16")))
    first = recomputing(tmp_path, allow_partial=True).submit(content)
    assert first.scoring_config["precision"] == ""
    (again,) = recomputing(tmp_path, precision="float32").rows()
    assert again.scoring_config == first.scoring_config | {"precision": "float32"} and again.cells == first.cells
    (claimed,) = Storage(tmp_path).rows()
    assert claimed == again  # a board that does not recompute shows it unchanged


def test_a_board_without_the_embedder_shows_the_run_as_claimed(tree, tmp_path, capsys):
    loaded = []

    def missing(name):
        loaded.append(name)
        raise H2HTalkError("the demo embedder is not installed")

    storage = Storage(tmp_path, allow_partial=True, recompute_ss=True, load=missing)
    row = storage.submit(edited(tree, _by_demo))
    other = storage.submit(edited(tree, lambda t: t["signature"].update(embedder="org/any-model")))
    assert row.ss == other.ss == "claimed" and len(storage.rows()) == 2
    assert loaded == [DEMO_NAME]  # a sender cannot make the board load another model
    assert capsys.readouterr().err.count("cannot be recomputed here: the demo embedder is not installed") == 1


def test_a_run_whose_ss_is_not_confirmed_leaves_the_board(tree, tmp_path, capsys):
    row = Storage(tmp_path, allow_partial=True).submit(edited(tree, _by_demo))
    assert recomputing(tmp_path, encode=lambda texts: np.ones((len(texts), 2))).rows() == []
    assert f"left off the board: {row.digest}.json.gz: DialogueBase: ss is claimed as" in capsys.readouterr().err
    assert Storage(tmp_path).rows() == [row]  # the submission is still stored


def test_ss_may_differ_as_half_and_single_precision_do(tree, tmp_path):
    content = edited(tree, lambda t: _ss_off(t, 0.004))
    assert recomputing(tmp_path / "again", allow_partial=True).submit(content).ss == "recomputed"
    with pytest.raises(H2HTalkError, match="ss is claimed as"):
        Storage(tmp_path / "trusting", allow_partial=True).submit(content)
    with pytest.raises(H2HTalkError, match="ss is claimed as"):
        recomputing(tmp_path / "far", allow_partial=True).submit(edited(tree, lambda t: _ss_off(t, 0.006)))


def test_claimed_rows_have_no_place_on_a_board_that_recomputes(tree, tmp_path):
    Storage(tmp_path, allow_partial=True).submit(packed(tree))
    for storage, place in ((Storage(tmp_path), 1), (recomputing(tmp_path), None)):  # of an embedder it does not have
        (row,) = run_board(storage.rows(), recompute_ss=storage.recompute_ss)
        assert row.claimed and best_of_brackets([row])[row.key].get("Overall") == place


@pytest.mark.slow
def test_ss_of_a_real_run_is_recomputed(tiny_model, tmp_path):
    run = tmp_path / "run"
    generate(Settings(model=str(tiny_model), limit=1), run)
    score_run(run, "demo")
    content = file_format.pack(make_submission(run, "1-8B"))
    row = Storage(tmp_path / "board", allow_partial=True, recompute_ss=True).submit(content)
    assert row.ss == "recomputed"
    tree = json.loads(gzip.decompress(content))
    for line in tree["answers"]:  # invented values that agree with each other
        line["ss"] = 0.99 if line["prediction"].strip() else 0.0
        means = tree["claims"]["tasks"][line["id"].split("-")[2]]
        means["composite"] += (line["ss"] - means["ss"]) / 7
        means["ss"] = line["ss"]
    invented = packed(tree)
    assert Storage(tmp_path / "trusting", allow_partial=True).submit(invented).ss == "claimed"
    with pytest.raises(H2HTalkError, match="ss is claimed as 99.00 but the answers give"):
        Storage(tmp_path / "strict", allow_partial=True, recompute_ss=True).submit(invented)
