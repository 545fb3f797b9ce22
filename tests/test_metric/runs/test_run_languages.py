"""Runs in two languages: each language has its own scores, and nothing is averaged over them."""

import json

import pandas as pd
import pytest
from helpers.board_runs import HashedWords, make_run
from helpers.commands import h2htalk

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.requests import chosen_rows, languages_of
from h2htalk_metric.metrics.similarity import Embedder
from h2htalk_metric.reports.report import report_sections, write_report
from h2htalk_metric.runs.compare import compare_runs, shared_languages
from h2htalk_metric.runs.groups import run_groups
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.runs.verify import verify_run

TASKS = "DialogueBase,ItineraryMiddle,RecollectionSynthesis"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Four records per config: a run in both languages, and one in each."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        code: make_run(folder / code.replace(",", "-"), "org/Model", language=code, limit=4, tasks=TASKS)
        for code in ("en,zh", "en", "zh")
    }


def test_the_manifest_names_languages_and_their_fingerprints(runs):
    manifest = Run(runs["en,zh"]).manifest
    assert languages_of(manifest) == {code: fingerprint(chosen_rows(TASKS, 4, code)) for code in ("en", "zh")}
    assert manifest["generation"]["max_new_tokens"]["DialogueBase-zh"]
    assert languages_of({"dataset": {"fingerprint": "of an old run"}}) == {"en": "of an old run"}


def test_each_language_has_the_scores_of_a_run_in_it_alone(runs):
    parts = Run(runs["en,zh"]).by_language
    assert list(parts) == ["en", "zh"]
    chinese, alone = read_scores(parts["zh"]), read_scores(runs["zh"])
    assert chinese.signature == alone.signature
    assert [*chinese.items] == [*alone.items]
    assert chinese.items["id"].tolist() == alone.items["id"].tolist()
    assert "character_composite" not in read_scores(parts["en"]).items
    stored = json.loads((runs["en,zh"] / "score.json").read_text())
    assert "row" not in stored and set(stored["languages"]) == {"en", "zh"}
    assert stored["languages"]["zh"]["row"].keys() == stored["languages"]["zh"]["character_row"].keys()


def test_the_character_variant_is_next_to_s_and_not_in_it(runs):
    scores = read_scores(runs["zh"])
    components = scores.items[["bleu1", "bleu2", "bleu3", "bleu4", "rouge1", "rougeL", "ss"]]
    assert scores.items["composite"].tolist() == pytest.approx(components.mean(axis=1).tolist())
    assert scores.items["character_composite"].between(0, 1).all()
    assert scores.character_row()["DialogueBase"] != scores.row()["DialogueBase"]


def test_a_run_in_two_languages_has_no_common_score(runs):
    with pytest.raises(H2HTalkError, match="has records in en and zh, which have no common score"):
        read_scores(runs["en,zh"])


def test_a_run_in_two_languages_is_verified_language_by_language(runs, tmp_path):
    embedder = Embedder("hashed-words", HashedWords().encode)
    assert verify_run(runs["en,zh"], embedder) == []
    items = pd.read_parquet(runs["en,zh"] / "scores.parquet")
    attrs = items.attrs
    changed = items.assign(composite=items["composite"].where(items["language"] == "en", 0.5))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("run.json", "predictions.jsonl", "score.json"):
        (copy / name).write_bytes((runs["en,zh"] / name).read_bytes())
    changed.attrs = attrs
    changed.to_parquet(copy / "scores.parquet", index=False)
    differences = verify_run(copy, embedder)
    assert differences and all(line.startswith("zh: ") for line in differences)


def test_the_report_shows_the_languages_side_by_side(runs):
    sections = report_sections(Run(runs["en,zh"]))
    side_by_side, gap = sections[0].tables
    assert sections[0].id == "languages"
    assert [column.title for column in side_by_side.columns][1::4] == ["English: n", "中文: n"]
    assert gap.title == "Chinese minus English"
    assert {row.cells[0] for row in gap.rows} == set(TASKS.split(","))
    ids = [section.id for section in sections]
    assert {"scores-en", "scores-zh", "format-zh"} <= set(ids) and len(set(ids)) == len(ids)
    english, chinese = (read_scores(part).row() for part in Run(runs["en,zh"]).by_language.values())
    row = next(row for row in gap.rows if row.cells[0] == "DialogueBase")
    assert row.cells[1] == f"{chinese['DialogueBase'] - english['DialogueBase']:+.2f}"
    _, page = write_report(runs["en,zh"])
    text = page.read_text("utf-8")
    assert 'lang="zh"' in text and "DialogueBase-zh" in text and "Scores, 中文" in text


def test_a_report_in_one_language_has_no_language_section(runs):
    ids = [section.id for section in report_sections(Run(runs["zh"]))]
    assert "languages" not in ids and "scores" in ids and "facts" not in ids


def test_runs_are_compared_in_the_languages_that_both_have(runs):
    pairs = shared_languages(Run(runs["en,zh"]), Run(runs["zh"]))
    assert list(pairs) == ["zh"]
    assert compare_runs(*pairs["zh"])["DialogueBase"].items == 4
    with pytest.raises(H2HTalkError, match="no common language"):
        shared_languages(Run(runs["en"]), Run(runs["zh"]))


def test_the_commands_work_on_both_languages(runs):
    compared = h2htalk("compare", str(runs["en,zh"]), str(runs["en,zh"]), "--resamples", "100")
    assert compared.returncode == 0, compared.stderr
    assert "Chinese (中文)" in compared.stdout and "English (English)" in compared.stdout
    refused = h2htalk("compare", str(runs["en"]), str(runs["zh"]))
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1


def test_the_page_of_many_runs_groups_them_by_language(runs):
    groups = run_groups([Run(runs[code]) for code in ("en,zh", "en", "zh")], resamples=100)
    labels = [{label.rpartition(", ")[2] for label in group.runs} for group in groups]
    assert labels == [{"English"}, {"中文"}]
    assert all(len(group.runs) == 2 for group in groups)
