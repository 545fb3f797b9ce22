"""docs/own-corpus.md from top to bottom, and runs over a user's own records."""

import json
import os
import shlex
import shutil

import pytest
from helpers.commands import h2htalk
from helpers.markdown_files import read_page
from helpers.paths import ROOT
from helpers.servers import scripted

from h2htalk_datasets.corpus.own import new_relationship
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.leaderboard.from_run import make_submissions
from h2htalk_metric.leaderboard.validation import validate
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores

PAGE = ROOT / "docs" / "own-corpus.md"


def commands_of_the_page():
    """The lines of the page's shell blocks, block by block."""
    blocks = PAGE.read_text("utf-8").split("```sh\n")[1:]
    return [[shlex.split(line) for line in block.split("\n```")[0].splitlines()] for block in blocks]


@pytest.mark.slow
def test_the_page_works_from_top_to_bottom(tmp_path):
    (five, with_prompts) = commands_of_the_page()
    assert len(five) == 5
    env = {"env": os.environ | {"HF_HUB_OFFLINE": "1"}, "cwd": tmp_path}
    for command in five:
        done = h2htalk(*command[1:], **env)
        assert done.returncode == 0, done.stderr
    assert "is confirmed" in done.stdout
    (tmp_path / "my-prompts").mkdir()
    shutil.copy(ROOT / "h2htalk_datasets" / "prompts" / "en" / "DialogueBase.jinja", tmp_path / "my-prompts")
    done = h2htalk(*with_prompts[0][1:], **env)
    assert done.returncode == 0, done.stderr
    assert read_page(PAGE)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run over a folder with one English and one Chinese relationship, with a template of its own."""
    folder = tmp_path_factory.mktemp("own")
    for language in ("en", "zh"):
        new_relationship("night-tram", language, folder / "corpus")
    (folder / "prompts" / "en").mkdir(parents=True)
    template = "{% block instructions %}Be brief.{% endblock %}{% block material %}{{ record.user }}?{% endblock %}"
    (folder / "prompts" / "en" / "DialogueBase.jinja").write_text(template)
    with scripted(lambda request: "坐下喝，豆浆给你留着。") as server:
        done = h2htalk(
            *("run", "--model", "m", "--base-url", server.url, "--embedder", "demo"),
            *("--data", folder / "corpus", "--prompts", folder / "prompts", "--out", folder / "run"),
        )
        assert done.returncode == 0, done.stderr
        return folder, server.requests


def test_a_run_over_own_data_has_its_name_and_fingerprint(finished):
    folder, requests = finished
    manifest = Run(folder / "run").manifest
    assert manifest["dataset"]["data"] == {"name": "corpus", "source": str(folder / "corpus")}
    assert set(manifest["dataset"]["languages"]) == {"en", "zh"} and manifest["dataset"]["n"] == len(requests) == 6
    assert manifest["prompts"]["templates"]["source"] == str(folder / "prompts")
    assert any(request["messages"][1]["content"] == "Dan?" for request in requests)
    parts = Run(folder / "run").by_language
    assert read_scores(parts["zh"]).row()["DialogueBase"] > 0
    assert h2htalk("verify", folder / "run").returncode == 0
    assert "Dan?" in (folder / "run" / "report.html").read_text("utf-8")


def test_a_board_refuses_a_run_over_own_data(finished):
    for submission in make_submissions(finished[0] / "run", "1-8B").values():
        with pytest.raises(H2HTalkError, match="records of your own"):
            validate(submission, allow_partial=True)


def test_changed_or_moved_data_is_named(finished, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(finished[0] / "run", copy)
    manifest = json.loads((copy / "run.json").read_text())
    manifest["dataset"]["data"]["source"] = str(tmp_path / "moved")
    (copy / "run.json").write_text(json.dumps(manifest))
    for make_data, message in (
        (lambda: None, "no data at"),
        (lambda: new_relationship("x", folder=tmp_path / "moved"), ""),
    ):
        make_data()
        refused = h2htalk("score", copy, "--embedder", "demo")
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1
        assert message in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("corpus", "check", "absent"), "there is no absent"),
        (("corpus", "build", "absent", "--out", "x"), "has no relationship files"),
        (("corpus", "build", "."), "needs --out"),
        (("new-relationship", "A B"), "is not a slug"),
        (("new-relationship", "a", "--language", "de"), "unknown language 'de'"),
        (("generate", "--model", "m", "--data", "absent", "--out", "x"), "no data at 'absent'"),
        (
            ("generate", "--model", "m", "--prompts", "absent", "--limit", "1", "--out", "x"),
            "no folder of templates absent",
        ),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(tmp_path, arguments, message):
    done = h2htalk(*arguments, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr
