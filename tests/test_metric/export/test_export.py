"""Exports are read back; slow tests run each harness on two records of two configs."""

import importlib
import json
import os
import runpy
import shutil
import sys
from pathlib import Path
from statistics import fmean

import pandas as pd
import pytest
import yaml
from helpers.commands import h2htalk, run
from helpers.harness_environment import harness_command

from h2htalk_datasets import TASKS, load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric import score
from h2htalk_metric.export import HARNESSES, export, folder

THINKING = ["--thinking-tokens", "500"]
FEW = ["RecollectionRefinement", "ItineraryResponse"]


@pytest.fixture(scope="module")
def full_export(tmp_path_factory):
    return export("lm-eval", tmp_path_factory.mktemp("export") / "full")


def test_every_record_is_exported_with_its_messages(full_export):
    count = 0
    for task in TASKS:
        lines = (full_export / "data" / task / "test.jsonl").read_text("utf-8").splitlines()
        for line, row in zip(lines, load(task), strict=True):
            record = json.loads(line)
            messages = [{"role": "system", "content": record["system"]}, {"role": "user", "content": record["prompt"]}]
            assert messages == row["messages"]
            assert (record["id"], record["reference"]) == (row["id"], row["reference"])
            count += 1
    assert count == 4650


def test_lm_eval_tasks_have_our_token_limits_and_groups_our_weights(full_export):
    kwargs = {
        task: yaml.safe_load((full_export / f"h2htalk_{task}.yaml").read_text())["generation_kwargs"] for task in TASKS
    }
    assert kwargs["DialogueBase"] == {"until": [], "do_sample": False, "max_gen_toks": 96}
    assert kwargs["ItineraryAdvanced"]["max_gen_toks"] == 320
    overall = yaml.safe_load((full_export / "h2htalk.yaml").read_text())
    assert overall["task"] == ["h2htalk_Dialogue", "h2htalk_Itinerary", "h2htalk_Recollection"]
    assert overall["aggregate_metric_list"][0]["weight_by_size"] is True
    dialogue = yaml.safe_load((full_export / "h2htalk_Dialogue.yaml").read_text())
    assert dialogue["task"] == ["h2htalk_DialogueBase", "h2htalk_DialogueEmotion", "h2htalk_DialogueSchedule"]
    assert dialogue["aggregate_metric_list"][0]["weight_by_size"] is False


def test_a_thinking_model_gets_more_tokens_and_its_thoughts_are_removed(tmp_path, monkeypatch):
    done = h2htalk("export", "lm-eval", "--out", tmp_path, "--tasks", FEW[0], "--embedder", "demo", *THINKING)
    assert done.returncode == 0, done.stderr
    task = yaml.safe_load((tmp_path / f"h2htalk_{FEW[0]}.yaml").read_text())
    assert task["generation_kwargs"]["max_gen_toks"] == TASKS[FEW[0]].max_new_tokens["en"] + 500
    monkeypatch.syspath_prepend(tmp_path)
    functions = importlib.import_module("h2htalk_lm_eval")
    row = load(FEW[0])[0]
    for text in ("<think>hm, a cake?</think>{}", "let me see</think>\n{}", "{}<think>was that all"):
        figures = functions.score_answer(row, [text.format(row["reference"])])
        assert figures["composite"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("harness", HARNESSES)
def test_the_command_writes_a_folder_and_replaces_an_earlier_export(harness, tmp_path):
    for tasks in (FEW, FEW[:1]):
        done = h2htalk("export", harness, "--out", tmp_path / "out", "--tasks", ",".join(tasks), "--embedder", "demo")
        assert done.returncode == 0, done.stderr
        manifest = json.loads((tmp_path / "out" / "h2htalk_export.json").read_text())
        assert (list(manifest["tasks"]), manifest["embedder"]) == (tasks, "demo")
        assert sorted(path.name for path in (tmp_path / "out" / "data").iterdir()) == sorted(tasks)
    assert (tmp_path / "out" / "README.md").read_text().startswith("# H2HTalk for")


def test_a_repeated_export_leaves_results_and_logs_alone(tmp_path):
    out = export("lm-eval", tmp_path / "out", tasks=",".join(FEW), embedder="demo")
    mine = [out / "results" / "model.json", out / "data" / FEW[1] / "cached.arrow", out / "h2htalk_mine.yaml"]
    for file in mine:
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine")
    export("inspect", out, tasks=FEW[0], embedder="demo")
    files = {str(file.relative_to(out)) for file in out.rglob("*") if file.is_file()}
    written = {"README.md", "h2htalk_export.json", "h2htalk_inspect.py", f"data/{FEW[0]}/test.jsonl"}
    assert files == written | {str(file.relative_to(out)) for file in mine}


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupted_export_can_be_repeated(again, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    out = tmp_path / "out"
    if again:
        export("inspect", out, tasks=",".join(FEW), embedder="demo")
    with monkeypatch.context() as context:
        context.setattr("shutil.copyfile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            export("lighteval", out, tasks=FEW[0], embedder="demo")
    assert not (out / "h2htalk_lighteval.py").exists() and not (out / "h2htalk_inspect.py").exists()
    export("lighteval", out, tasks=FEW[0], embedder="demo")
    assert json.loads((out / "h2htalk_export.json").read_text())["harness"] == "lighteval"
    assert [path.name for path in (out / "data").iterdir()] == FEW[:1]


def test_overall_is_printed_for_each_results_file(tmp_path):
    files = []
    for number, part in enumerate((0.5, 0.25)):
        results = {f"h2htalk:{task}|0": {"composite": part} for task in TASKS} | {"all": {"composite": 9}}
        files.append(tmp_path / f"results_{number}.json")
        files[-1].write_text(json.dumps({"results": results}))
    script = Path(folder.__file__).parent / "files" / "overall.py"
    lines = run(sys.executable, str(script), *map(str, files)).stdout.splitlines()
    assert [lines[0], lines[16]] == [str(file) for file in files]
    assert [line.split() for line in lines if line.startswith("Overall")] == [
        ["Overall", "50.00"],
        ["Overall", "25.00"],
    ]
    assert "name lighteval's results files" in run(sys.executable, str(script)).stderr


def test_wrong_input_is_refused(tmp_path):
    with pytest.raises(H2HTalkError, match="Did you mean lm-eval"):
        export("lmeval", tmp_path / "x")
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(H2HTalkError, match="is not an export; choose another folder"):
        export("inspect", tmp_path, tasks=FEW[0])
    assert (tmp_path / "thesis.txt").exists()


@pytest.fixture
def exported(request, tmp_path) -> Path:
    return export(request.param, tmp_path / "export", tasks=",".join(FEW), embedder="demo")


def ours(answers: dict[str, str]) -> dict[str, float]:
    """Our composite of each config, by the answers' ids."""
    figures = {}
    for task in FEW:
        rows = [row for row in load(task) if row["id"] in answers]
        texts = [answers[row["id"]] for row in rows]
        figures[task] = score(texts, [row["reference"] for row in rows], embedder="demo").mean()["composite"]
    return figures


def prompts(tokenizer) -> dict[str, str]:
    """Our prompts as text, by id."""
    return {
        row["id"]: tokenizer.apply_chat_template(row["messages"], tokenize=False, add_generation_prompt=True)
        for task in FEW
        for row in load(task)
    }


def finished(*command: object, **options) -> None:
    done = run(*map(str, command), **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.timeout(1800)  # with an installation
@pytest.mark.parametrize("exported", ["lm-eval"], indirect=True)
def test_lm_eval_sends_our_prompts_and_reports_our_composite(exported, tiny_model, demo, tmp_path):
    for task, count in zip(FEW, (3, 1), strict=True):  # unequal, so that the weights of Overall matter
        file = exported / "data" / task / "test.jsonl"
        file.write_text("".join(file.read_text("utf-8").splitlines(keepends=True)[:count]), "utf-8")
    options = ["--tasks", "h2htalk", "--apply_chat_template", "--log_samples", "--device", "cpu"]
    model = ["--model", "hf", "--model_args", f"pretrained={tiny_model},dtype=float32"]
    lm_eval = harness_command("lm-eval", "lm_eval")
    finished(lm_eval, *model, "--include_path", exported, *options, "--output_path", tmp_path / "out")
    expected, answers = prompts(demo.tokenizer), {}
    for file in (tmp_path / "out").rglob("samples_*.jsonl"):
        for line in file.read_text("utf-8").splitlines():
            sample = json.loads(line)
            request = sample["arguments"]["gen_args_0"]
            assert request["arg_0"] == expected[sample["doc"]["id"]]
            assert request["arg_1"]["max_gen_toks"] == TASKS[sample["doc"]["task"]].max_new_tokens["en"]
            answers[sample["doc"]["id"]] = sample["resps"][0][0]
    assert len(answers) == 4
    results = json.loads(next((tmp_path / "out").rglob("results_*.json")).read_text())["results"]
    figures = ours(answers)
    for task, figure in figures.items():
        assert results[f"h2htalk_{task}"]["composite,none"] == pytest.approx(figure, abs=1e-6)
    weighted = (3 * figures[FEW[0]] + figures[FEW[1]]) / 4
    assert abs(weighted - sum(figures.values()) / 2) > 1e-4
    assert results["h2htalk"]["composite,none"] == pytest.approx(weighted, abs=1e-6)


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)  # with an installation
@pytest.mark.parametrize("exported", ["lighteval"], indirect=True)
def test_lighteval_sends_our_prompts_and_reports_our_composite(exported, tiny_model, demo, tmp_path):
    model = f"model_name={tiny_model},dtype=float32,batch_size=1,cache_dir={tmp_path / 'cache'}"
    options = ["--custom-tasks", exported / "h2htalk_lighteval.py", "--max-samples", 2, "--save-details"]
    tasks = ",".join(f"h2htalk:{task}" for task in FEW)
    lighteval = harness_command("lighteval", "lighteval")
    finished(lighteval, "accelerate", model, tasks, *options, "--output-dir", tmp_path / "out", cwd=tmp_path)
    expected, answers = prompts(demo.tokenizer), {}
    for file in (tmp_path / "out").rglob("details_*.parquet"):
        for row in pd.read_parquet(file).to_dict("records"):
            identity, response = row["doc"]["specific"]["id"], row["model_response"]
            ids = demo.tokenizer(expected[identity], add_special_tokens=False)["input_ids"]
            assert response["input_tokens"].tolist() == ids
            assert row["doc"]["generation_size"] == TASKS[identity.split("-")[2]].max_new_tokens["en"]
            answers[identity] = response["text"][0]
    assert len(answers) == 4
    file = next((tmp_path / "out").rglob("results_*.json"))
    results = json.loads(file.read_text())["results"]
    for task, figure in ours(answers).items():
        assert results[f"h2htalk:{task}|0"]["composite"] == pytest.approx(figure, abs=1e-6)
    row = run(str(harness_command("lighteval", "python")), str(exported / "overall.py"), str(file))
    assert f"{100 * ours(answers)[FEW[0]]:.2f}" in row.stdout
    assert "Overall                      -" in row.stdout  # nine configs were not run


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)  # with an installation
@pytest.mark.parametrize("exported", ["inspect"], indirect=True)
def test_inspect_sends_our_prompts_and_reports_our_composite(exported, tiny_model, demo, tmp_path):
    chosen = [row["id"] for task in FEW for row in load(task).select(range(2))]
    # One at a time: a batch is padded, and Inspect counts the padding as input.
    model = ["--model", "hf/local", "-M", f"model_path={tiny_model}", "-M", "do_sample=false", "--max-connections", 1]
    log = ["--sample-id", ",".join(chosen), "--log-dir", tmp_path / "log", "--log-format", "json", "--display", "plain"]
    finished(harness_command("inspect", "inspect"), "eval", "h2htalk_inspect.py", *model, *log, cwd=exported)
    result = json.loads(next((tmp_path / "log").glob("*.json")).read_text("utf-8"))
    rows = {row["id"]: row for task in FEW for row in load(task)}
    expected, answers = prompts(demo.tokenizer), {}
    for sample in result["samples"]:
        identity = sample["id"]
        call = next(event for event in sample["events"] if event["event"] == "model")
        sent = [{"role": message["role"], "content": message["content"]} for message in sample["messages"]]
        assert sent[:-1] == rows[identity]["messages"]  # and then the answer
        assert call["config"]["max_tokens"] == TASKS[rows[identity]["task"]].max_new_tokens["en"]
        length = len(demo.tokenizer(expected[identity], add_special_tokens=False)["input_ids"])
        assert call["output"]["usage"]["input_tokens"] == length
        answers[identity] = sample["output"]["choices"][0]["message"]["content"]
    assert sorted(answers) == sorted(chosen)
    composite = next(part for part in result["results"]["scores"] if part["name"] == "composite")["metrics"]
    reported = {name: metric["value"] for name, metric in composite.items()}
    figures = ours(answers)
    for task, figure in figures.items():
        assert reported[f"grouped_{task}"] == pytest.approx(figure, abs=1e-6)
    assert reported["grouped_all"] == pytest.approx(sum(figures.values()) / 2, abs=1e-6)


def for_transformers_4(model: Path, folder: Path) -> Path:
    """A copy of a model's folder whose tokenizer has no class of Transformers 5."""
    shutil.copytree(model, folder)
    file = folder / "tokenizer_config.json"
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "attention_mask"]}
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | names))
    return folder


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)  # with an installation
@pytest.mark.parametrize("exported", ["opencompass"], indirect=True)
def test_opencompass_sends_our_prompts_and_reports_our_composite(exported, tiny_model, tmp_path):
    rows = {row["id"]: row for task in FEW for row in load(task)}
    for task in FEW:
        file = exported / "data" / task / "test.jsonl"
        file.write_text("".join(file.read_text("utf-8").splitlines(keepends=True)[:2]), "utf-8")
    model = for_transformers_4(tiny_model, tmp_path / "tiny")
    path = os.pathsep.join([str(exported), os.environ.get("PYTHONPATH", "")])
    settings = {"PYTHONPATH": path, "H2HTALK_MODEL": str(model), "H2HTALK_GPUS": "0", "H2HTALK_BATCH": "1"}
    command = [
        harness_command("opencompass", "opencompass"),
        "eval_h2htalk.py",
        "--work-dir",
        tmp_path / "out",
        "--debug",
    ]
    finished(*command, cwd=exported, env=os.environ | settings)
    answers, reported = {}, {}
    for task in FEW:
        (file,) = (tmp_path / "out").rglob(f"results/tiny/h2htalk_{task}.json")
        reported[task] = json.loads(file.read_text("utf-8"))
        answers |= {part["id"][0]: part["answer"][0] for part in reported[task]["details"]}
        (file,) = (tmp_path / "out").rglob(f"predictions/tiny/h2htalk_{task}.json")
        sent = [sample["origin_prompt"] for sample in json.loads(file.read_text("utf-8")).values()]
        roles = {"SYSTEM": "system", "HUMAN": "user"}
        prompts = [[{"role": roles[part["role"]], "content": part["prompt"]} for part in parts] for parts in sent]
        assert prompts == [rows[part["id"][0]]["messages"] for part in reported[task]["details"]]
    assert len(answers) == 4
    figures = ours(answers)
    for task, figure in figures.items():
        assert reported[task]["composite"] == pytest.approx(100 * figure, abs=1e-6)
    summary = pd.read_csv(next((tmp_path / "out").rglob("summary_*.csv"))).set_index("dataset")["tiny"]
    weighted = sum(TASKS[task].count * figure for task, figure in figures.items()) / sum(
        TASKS[task].count for task in FEW
    )
    assert summary["h2htalk"] == pytest.approx(100 * weighted, abs=0.005)
    assert set(summary.index) == {f"h2htalk_{name}" for name in (*FEW, "Itinerary", "Recollection")} | {"h2htalk"}


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)  # with an installation
@pytest.mark.parametrize("exported", ["evalscope"], indirect=True)
def test_evalscope_sends_our_prompts_and_reports_our_composite(exported, tiny_model, tmp_path):
    model = for_transformers_4(tiny_model, tmp_path / "tiny")
    options = ["--model", model, "--eval-type", "llm_ckpt", "--generation-config", "do_sample=false", "--limit", "2"]
    python = harness_command("evalscope", "python")
    finished(python, "h2htalk_evalscope.py", *options, "--work-dir", tmp_path / "out", "--no-timestamp", cwd=exported)
    rows, answers, figures = {row["id"]: row for task in FEW for row in load(task)}, {}, {}
    for task in FEW:
        lines = (tmp_path / "out" / "reviews" / "tiny" / f"h2htalk_{task}.jsonl").read_text("utf-8").splitlines()
        for review in map(json.loads, lines):
            identity = review["sample_score"]["sample_metadata"]["id"]
            sent = [{"role": message["role"], "content": message["content"]} for message in review["messages"]]
            assert sent[:-1] == rows[identity]["messages"]  # and then the answer
            answers[identity] = sent[-1]["content"]
            figures.setdefault(task, []).append(review["sample_score"]["score"]["value"]["composite"])
        predictions = (tmp_path / "out" / "predictions" / "tiny" / f"h2htalk_{task}.jsonl").read_text("utf-8")
        usage = [json.loads(line)["model_output"]["usage"]["output_tokens"] for line in predictions.splitlines()]
        assert max(usage) <= TASKS[task].max_new_tokens["en"]
    assert len(answers) == 4
    report = json.loads((tmp_path / "out" / "reports" / "tiny" / "h2htalk.json").read_text("utf-8"))
    (metric,) = (part for part in report["metrics"] if part["identity"]["name"] == "composite")
    reported = {part["name"]: part["score"] for part in metric["categories"][0]["subsets"]}
    for task, figure in ours(answers).items():
        assert fmean(figures[task]) == pytest.approx(figure, abs=1e-6)
        assert reported[task] == pytest.approx(figure, abs=1e-4)  # rounded
    assert metric["score"] == pytest.approx(fmean(fmean(part) for part in figures.values()), abs=1e-4)
    assert report["primary_metric_identity"]["name"] == "composite"


def test_each_config_of_opencompass_has_its_own_limit(tmp_path, monkeypatch):
    out = export("opencompass", tmp_path / "out", embedder="demo")
    monkeypatch.setenv("H2HTALK_MODEL", "org/Model-7B")
    config = runpy.run_path(str(out / "eval_h2htalk.py"))
    limits = {part["config"]: part["infer_cfg"]["inferencer"]["max_out_len"] for part in config["datasets"]}
    assert limits == {task.name: task.max_new_tokens["en"] for task in TASKS.values()}
    (weights,) = (group["weights"] for group in config["summarizer"]["summary_groups"] if group["name"] == "h2htalk")
    assert weights == {f"h2htalk_{task.name}": task.count for task in TASKS.values()}
    assert (config["models"][0]["path"], config["models"][0]["abbr"]) == ("org/Model-7B", "Model-7B")


BLOCKED_LOOP = """
import asyncio, sys, threading
from types import SimpleNamespace
from inspect_ai.scorer import Target
sys.path.insert(0, "")
import h2htalk_inspect as exported

loop_ran, score = threading.Event(), exported.score

def score_after_the_loop_ran(*texts, **options):
    assert loop_ran.wait(20), "the event loop was blocked while an answer was scored"
    return score(*texts, **options)

async def main():
    exported.score = score_after_the_loop_ran
    state = SimpleNamespace(output=SimpleNamespace(completion="a cup of tea"), metadata={"language": "en"})
    scoring = [asyncio.create_task(exported.composite()(state, Target("a cup of tea"))) for _ in range(3)]
    await asyncio.sleep(0)
    loop_ran.set()
    print([round(result.value["composite"], 3) for result in await asyncio.gather(*scoring)])

asyncio.run(main())
"""


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)  # with an installation
@pytest.mark.parametrize("exported", ["inspect"], indirect=True)
def test_the_inspect_scorer_does_not_block_other_requests(exported):
    done = run(str(harness_command("inspect", "python")), "-c", BLOCKED_LOOP, cwd=exported)
    assert done.stdout == "[1.0, 1.0, 1.0]\n", done.stderr
