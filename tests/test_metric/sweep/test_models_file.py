"""The file of a sweep: options, sizes, brackets and names; what is wrong is said before anything runs."""

import pytest
from helpers.commands import h2htalk
from helpers.paths import ROOT

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.leaderboard.paper import published_rows
from h2htalk_metric.runs.model_sizes import ModelSize
from h2htalk_metric.sweep.models_file import read_models, sizes_of

EXAMPLES = sorted((ROOT / "examples").glob("models-*.yaml"))


def read(tmp_path, text):
    file = tmp_path / "models.yaml"
    file.write_text(text)
    return read_models(file)


def test_an_entry_has_the_defaults_and_its_own_options(tmp_path):
    one, other = read(
        tmp_path,
        """
        defaults: {dtype: bfloat16, limit: 2}
        models:
          - {model: org/Big-70B, parameters: 70.6, devices-per-replica: 4, trust_remote_code: true, fold_system: false}
          - {model: org/small, adapter: me/lora, parameters: 0.5, dtype: float32, tasks: [DialogueBase, ItineraryBasic]}
        """,
    )
    assert one.arguments() == [
        "--model", "org/Big-70B", "--dtype", "bfloat16", "--limit", "2", "--devices-per-replica", "4",
        "--trust-remote-code",
    ]  # fmt: skip
    assert (one.name, one.bracket, other.name, other.bracket) == ("big-70b", "32B+", "small+lora", "0-1B")
    assert other.arguments()[-2:] == ["--tasks", "DialogueBase,ItineraryBasic"] and "float32" in other.arguments()
    assert sizes_of([one, other])["org/small", "me/lora"] == ModelSize("other", 0.5)


def test_the_embedder_is_no_option_of_generate(tmp_path):
    (entry,) = read(tmp_path, "models: [{model: demo, parameters: 1, embedder: demo, seed: 3}]")
    assert entry.arguments() == ["--model", "demo", "--embedder", "demo", "--seed", "3"]
    assert entry.arguments("generate") == ["--model", "demo", "--seed", "3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: []", "needs a list `models`"),
        ("- demo", "needs a list `models`"),
        ("models: [demo]", "model 1: write a mapping"),
        ("models: [{model: demo, parameters: 1}]\nextra: 1", "unknown key 'extra'"),
        ("models: [{model: demo, parameters: 1, dtpe: float32}]", "unknown option 'dtpe'. Did you mean dtype"),
        ("models: [{model: demo}]", "give its `parameters` in billions, or a `bracket`"),
        ("models: [{parameters: 7}]", "model 1: model: Field required"),
        ("models: [{model: demo, parameters: -1}]", "parameters"),
        ("models: [{model: demo, parameters: 1}, {model: x/demo, parameters: 1}]", "two models have the name 'demo'"),
        ("models: [{model: demo, parameters: 1, name: ../x}]", "cannot be a folder"),
        ("models: [{model: demo, parameters: 1, name: board}]", "cannot be a folder"),
        ("models: [{model: demo, parameters: 1, out: x}]", "unknown option 'out'"),
        ("models: {", "cannot read"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, message):
    with pytest.raises(H2HTalkError, match=None) as refused:
        read(tmp_path, text)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_a_wrong_value_of_an_option_is_refused_before_anything_runs(tmp_path):
    file = tmp_path / "models.yaml"
    file.write_text("models: [{model: demo, parameters: 1}, {model: x, parameters: 1, temperature: warm}]")
    refused = h2htalk("sweep", file, "--out", tmp_path / "out")
    assert refused.returncode == 2 and not (tmp_path / "out").exists()
    assert "error: x: Invalid value for '--temperature'" in refused.stderr


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_shipped_files_hold_models_by_bracket_and_size(file):
    entries = read_models(file)
    assert len(entries) >= 10 and all(entry.parameters and entry.family != "other" for entry in entries)
    sizes = [entry.parameters for entry in entries if entry.bracket != "specialized"]
    assert sizes == sorted(sizes)


def test_the_brackets_of_the_papers_models_are_the_papers():
    published = {row.model.lower(): row.bracket for row in published_rows()}
    entries = read_models(ROOT / "examples" / "models-open.yaml")
    both = {entry.name: entry.bracket for entry in entries if entry.name in published}
    assert len(both) >= 15
    assert both == {name: published[name] for name in both}
