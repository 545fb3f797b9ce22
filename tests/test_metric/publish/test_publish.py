"""Published folders are loaded, and uploads are read back from a stand-in of the Hub."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from urllib.request import urlopen

import evaluate
import pytest
import yaml
from datasets import load_dataset
from helpers.board_runs import make_run
from helpers.commands import h2htalk, run
from helpers.hub_stand_in import TOKEN, hub
from helpers.launch import free_port

from h2htalk_datasets import TASKS, load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.probes import load_probe
from h2htalk_datasets.tasks import MEMORY, PROBE_SETS
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER
from h2htalk_metric.publish import check_card, prepare_folder, prepare_results

FIGURES = {"counts.png", "labels.png", "lengths.png", "report.png", "statistics.md", "verbs.png", "words.png"}
DATASET = {"README.md", "LICENSE", "eval.yaml", "data/en/manifest.json"}
DATASET |= {f"data/en/{config}.parquet" for config in (*TASKS, *PROBE_SETS, MEMORY)} | {
    f"figures/{name}" for name in FIGURES
}
DATASET |= {"data/zh/manifest.json", *(f"data/zh/{task}.parquet" for task in TASKS)}


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return prepare_folder("dataset", "my-team/talk", tmp_path_factory.mktemp("publish"))


def test_the_dataset_folder_loads_as_it_stands(dataset):
    assert set(files_in(dataset)) == DATASET
    for task in TASKS:
        rows = load_dataset(str(dataset), task, split="test")
        assert len(rows) == TASKS[task].count
        assert rows[0] == load(task)[0]
    for probe in PROBE_SETS:
        assert len(load_dataset(str(dataset), probe, split="test")) == len(load_probe(probe))
    card = (dataset / "README.md").read_text("utf-8")
    assert 'load_dataset("my-team/talk", "ItineraryMiddle", split="test")\n' in card
    assert "h2htalk prepare" not in card


def test_eval_yaml_names_every_config_with_its_split(dataset):
    benchmark = yaml.safe_load((dataset / "eval.yaml").read_text())
    assert set(benchmark) == {"name", "description", "evaluation_framework", "tasks"}  # what the Hub requires
    assert [task["id"] for task in benchmark["tasks"]] == [*TASKS, *(f"{task}-zh" for task in TASKS)]
    for task in benchmark["tasks"]:
        count = TASKS[task["id"].removesuffix("-zh")].count
        assert load_dataset(str(dataset), task["config"], split=task["split"]).num_rows == count


def test_the_metric_folder_loads_and_scores(tmp_path):
    folder = prepare_folder("metric", "my-team/companion_score", tmp_path)
    assert set(files_in(folder)) == {"README.md", "app.py", "companion_score.py", "requirements.txt"}
    metric = evaluate.load(str(folder))
    result = metric.compute(predictions=["a cup of tea"], references=["a cup of tea"], embedder="demo")
    assert result["composite"] == pytest.approx(1.0, abs=1e-6)
    assert (folder / "requirements.txt").read_text() == f"h2htalk=={version('h2htalk')}\n"
    assert 'evaluate.load("my-team/companion_score")' in (folder / "README.md").read_text("utf-8")


def test_the_metrics_space_answers_and_shows_wrong_input(tmp_path):
    pytest.importorskip("gradio")
    folder = prepare_folder("metric", "my-team/companion_score", tmp_path)
    code = (
        "import app, functools, gradio, h2htalk_metric\n"
        "app.score = functools.partial(h2htalk_metric.score, embedder='demo')\n"
        "scores, signature = app.demo.fn('a cup of tea', 'a cup of tea', 'en')\n"
        "assert scores['composite'] == 1.0 and 'embedder:demo' in signature\n"
        "try: app.demo.fn('tea', '', 'en')\n"
        "except gradio.Error as error: print('shown:', error)\n"
    )
    done = run(sys.executable, "-c", code, cwd=folder)
    assert "reference 0 is empty" in done.stdout, done.stderr


def test_the_leaderboard_folder_starts_the_installed_board(tmp_path):
    folder = prepare_folder("leaderboard", "my-team/board", tmp_path)
    assert set(files_in(folder)) == {"README.md", "app.py", "requirements.txt"}
    assert (folder / "requirements.txt").read_text() == f"h2htalk[leaderboard]=={version('h2htalk')}\n"
    pytest.importorskip("gradio", reason="gradio is not installed")
    with started_space(folder) as url:
        page = urlopen(url, timeout=100).read().decode()
    assert "H2HTalk leaderboard" in page and "Submitting is off" in page and "H2HTALK_BOARD_REPO" in page
    assert "Check and submit" not in page


@contextmanager
def started_space(folder):
    """Starts a Space's app.py as the Hub does, without a repository for submissions; yields its address."""
    port = int(free_port())
    environment = os.environ | {"SPACE_ID": "my-team/board", "GRADIO_SERVER_PORT": str(port)}
    command = [sys.executable, "app.py"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 100
            while not listening(port):
                assert process.poll() is None and time.monotonic() < deadline, "the Space did not start"
                time.sleep(0.25)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.kill()


def listening(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_existing_files_are_not_replaced(tmp_path):
    (tmp_path / "talk").mkdir()
    (tmp_path / "talk" / "README.md").write_text("mine")
    with pytest.raises(H2HTalkError, match="talk is not empty"):
        prepare_folder("dataset", "my-team/talk", tmp_path)
    assert (tmp_path / "talk" / "README.md").read_text() == "mine"


def test_an_incomplete_card_is_refused(dataset, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(dataset, broken)
    (broken / "data" / "en" / "DialogueBase.parquet").unlink()
    with pytest.raises(H2HTalkError, match=r"missing: data/en/DialogueBase\.parquet"):
        check_card(broken, "dataset")
    card = (broken / "README.md").read_text("utf-8")
    (broken / "README.md").write_text(card.replace("license:", "lic ense: [", 1), "utf-8")
    with pytest.raises(H2HTalkError, match="is not valid"):
        check_card(broken, "dataset")


def publish(server, *arguments, token=TOKEN, **variables):
    """`h2htalk publish` against the stand-in, with a login from the environment only."""
    environment = {key: value for key, value in os.environ.items() if key not in ("HF_TOKEN", "HF_HUB_OFFLINE")}
    # The stand-in cannot imitate the Xet transfer; without it large files are uploaded by Git LFS.
    environment |= (
        {"HF_ENDPOINT": server.url, "HF_HUB_DISABLE_XET": "1"} | ({"HF_TOKEN": token} if token else {}) | variables
    )
    return h2htalk("publish", *arguments, env=environment)


def test_the_dataset_is_uploaded_byte_for_byte_also_twice(dataset):
    with hub() as server:
        server.frameworks.add("h2htalk")
        for _ in range(2):
            done = publish(server, "dataset", "--repo", "my-team/talk")
            assert done.returncode == 0, done.stderr
        assert f"published: {server.url}/datasets/my-team/talk/commit/" in done.stdout
        assert "only for datasets on its allow-list" in done.stdout and "refused" not in done.stdout
        assert server.repos == {"dataset/my-team/talk": files_in(dataset)}
        assert server.created[0]["type"] == "dataset"
        puts = [call for call in server.calls if call.startswith("PUT")]
        assert len(puts) == 2 * (2 * len(TASKS) + len(PROBE_SETS) + 7)  # Parquet files and figures go as large files
        assert "POST /api/datasets/my-team/talk/commit/main" in server.calls


def test_a_refused_eval_yaml_does_not_block_the_records(dataset):
    with hub() as server:
        done = publish(server, "dataset", "--repo", "my-team/talk")
        assert done.returncode == 0, done.stderr
        assert "without eval.yaml, which the Hub refused: " in done.stdout
        assert "evaluation_framework must be one of inspect-ai" in done.stdout
        files = files_in(dataset)
        del files["eval.yaml"]
        assert server.repos == {"dataset/my-team/talk": files}


@pytest.mark.parametrize(("kind", "requirement"), [("metric", "h2htalk"), ("leaderboard", "h2htalk[leaderboard]")])
def test_a_space_can_install_the_package_from_elsewhere(kind, requirement, tmp_path):
    source = "git+https://example.org/team/h2htalk@0123abc"
    done = h2htalk("publish", kind, "--repo", "my-team/space", "--dry-run", "--out", tmp_path, "--package", source)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "space" / "requirements.txt").read_text() == f"{requirement} @ {source}\n"


def test_the_metric_is_uploaded_to_a_gradio_space(tmp_path):
    with hub() as server:
        done = publish(server, "metric", "--repo", "my-team/companion_score", "--out", tmp_path)
        assert done.returncode == 0, done.stderr
        assert "built as soon as its requirements.txt can be installed" in done.stdout
        assert server.repos == {"space/my-team/companion_score": files_in(tmp_path / "companion_score")}
        assert (server.created[0]["type"], server.created[0]["sdk"]) == ("space", "gradio")


@pytest.mark.parametrize(
    ("arguments", "options", "complaint"),
    [
        (["dataset", "--repo", "my-team/talk"], {"token": None}, "no login for the Hub"),
        (["dataset", "--repo", "my-team/talk"], {"token": "hf_wrong"}, "cannot publish my-team/talk at http"),
        (["dataset", "--repo", "my-team/talk"], {"HF_ENDPOINT": "http://127.0.0.1:9"}, "cannot publish my-team/talk"),
        (["dataset", "--repo", "my-team/talk"], {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        (["metrics", "--repo", "my-team/talk"], {}, "Did you mean metric"),
        (["dataset", "--repo", "talk"], {}, "--repo must be ORG/NAME"),
        (["metric", "--repo", "my-team/my-score"], {}, "use underscores"),
        (["metric", "--repo", "my-team/h2htalk_metric"], {}, "would hide the installed package"),
        (["results", "--repo", "my-team/model"], {}, "results need --run"),
    ],
)
def test_what_cannot_be_published_is_one_line(arguments, options, complaint):
    with hub() as server:
        refused = publish(server, *arguments, **options)
        assert refused.returncode == 2
        assert complaint in refused.stderr
        assert "Traceback" not in refused.stderr
        assert server.repos == {}


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A run of one full config; only the name of its embedder is BGE-M3's."""
    folder = tmp_path_factory.mktemp("results") / "run"
    return make_run(folder, "my-team/model", tasks="ItineraryInitialization", embedder=DEFAULT_EMBEDDER)


def test_a_runs_figures_go_to_the_models_repository_as_a_pull_request(scored):
    huggingface_hub = pytest.importorskip("huggingface_hub", minversion="1.4")
    with hub() as server:
        server.repos["model/my-team/model"] = {}
        arguments = ["results", "--repo", "my-team/model", "--run", scored, "--benchmark", "my-team/talk"]
        done = publish(server, *arguments)
        assert done.returncode == 0, done.stderr
        assert f"published: {server.url}/my-team/model/discussions/1" in done.stdout
        assert server.repos == {"model/my-team/model": {}}
        files = server.pull_requests["model/my-team/model"]
    assert list(files) == [".eval_results/h2htalk.yaml"]
    entry = huggingface_hub.parse_eval_result_entries(yaml.safe_load(files[".eval_results/h2htalk.yaml"]))[0]
    row = json.loads((scored / "score.json").read_text())["row"]
    assert (entry.dataset_id, entry.task_id) == ("my-team/talk", "ItineraryInitialization")
    assert entry.value == pytest.approx(row["ItineraryInitialization"], abs=0.005)
    assert "embedder BAAI/bge-m3" in entry.notes


@pytest.mark.parametrize(
    ("file", "keys", "value", "reason"),
    [
        ("run.json", ("dataset", "limit"), 2, "does not have full configs"),
        ("run.json", ("prompts", "sap"), [], "and the full persona"),
        (
            "run.json",
            ("dataset", "fingerprint"),
            "0" * 64,
            "other records than those installed .fingerprint 0{12},",
        ),
        (
            "score.json",
            ("signature", "embedder"),
            "demo:all-MiniLM-L6-v2",
            "SS by demo:all-MiniLM-L6-v2; score it with",
        ),
    ],
)
def test_scores_that_cannot_be_compared_are_not_published(file, keys, value, reason, scored, tmp_path):
    other = shutil.copytree(scored, tmp_path / "other")
    tree = json.loads((other / file).read_text())
    tree[keys[0]][keys[1]] = value
    (other / file).write_text(json.dumps(tree))
    with pytest.raises(H2HTalkError, match=reason):
        prepare_results(other, "my-team/talk", "my-team/model", tmp_path)
