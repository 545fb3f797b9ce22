"""The results of a run in other tools' formats have the run's own figures; slow tests use the tools themselves."""

import json
import shutil
import sys
from collections import defaultdict
from hashlib import sha256
from statistics import fmean

import pytest
from helpers.board_runs import make_run
from helpers.commands import h2htalk, run
from helpers.harness_environment import harness_command

from h2htalk_datasets import load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.export import Source, export, export_results
from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.judge.judgement import Judgement, append_judgement, item_key
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.prompt import both_positions
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.review import ReviewItem, Reviews
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores

EEE = "every-eval-ever"
MODEL = Source(model_id="org/Model-7B")
JUDGED = ("ItineraryBasic", "ItineraryResponse")  # one with J, one without
JUDGES = ("first-judge", "second-judge")
UNSCORED = "the reply was cut off"


def judge_and_review(folder):
    """Judge two tasks by two judges (one answer has a failure), and let two people mark the first answer."""
    Panel(JUDGES).write(folder)
    items = judge_items(Run(folder), JUDGED)
    for place, item in enumerate(items):
        for number, judge in enumerate(JUDGES):
            names = [criterion.name for criterion in item.rubric.criteria]
            judgement = Judgement(
                item.id,
                item.rubric.name,
                judge,
                item_key(item, judge, 0, 0),
                scores=dict.fromkeys(names, float(place + number)),
                score=float(place + number),
                explanations={position: [f"{judge} says so."] for position in both_positions(item.blocks)},
            )
            failed = Judgement(item.id, item.rubric.name, judge, judgement.key, unscored=UNSCORED)
            append_judgement(folder, failed if (place, number) == (1, 0) else judgement)
    first = items[0]
    review = ReviewItem(
        first.id, first.rubric.name, (), first.blocks["reference"], first.blocks["answer"], first.rubric
    )
    reviews = Reviews.create(folder, [review], {"seed": 0})
    for rater, mark in (("Ada Smith", 4), ("Bo Jones", 5)):
        reviews.save(first.id, rater, {criterion.name: mark for criterion in first.rubric.criteria}, f"It is a {mark}.")
    return folder


@pytest.fixture(scope="module")
def judged_run(tmp_path_factory):
    return judge_and_review(make_run(tmp_path_factory.mktemp("judged") / "run", "demo", limit=2))


@pytest.fixture(scope="module")
def chinese_and_english(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("both") / "run", "demo", limit=1, language="en,zh", tasks=JUDGED[0])


def read(aggregate):
    """The aggregate file and the lines of its samples."""
    content = json.loads(aggregate.read_text("utf-8"))
    samples = aggregate.parents[4] / content["detailed_evaluation_results"]["file_path"]
    assert content["detailed_evaluation_results"]["checksum"] == sha256(samples.read_bytes()).hexdigest()
    lines = samples.read_text("utf-8").splitlines()  # also at U+2028, as the validator does
    assert content["detailed_evaluation_results"]["total_rows"] == len(lines)
    return content, [json.loads(line) for line in lines]


def by_result(lines):
    groups = defaultdict(list)
    for line in lines:
        groups[line["evaluation_result_id"]].append(line)
    return groups


def test_every_figure_is_the_runs_own(judged_run, tmp_path):
    content, lines = read(*export_results(judged_run, EEE, tmp_path / "out", MODEL))
    results = {result["evaluation_result_id"]: result["score_details"] for result in content["evaluation_results"]}
    scores, judged = read_scores(judged_run), read_judged(judged_run)
    stored = json.loads((judged_run / "score.json").read_text())
    for cell, value in stored["row"].items():
        assert results[f"{cell}/s"]["score"] == pytest.approx(value / 100, abs=1e-12)
        interval, ends = scores.intervals()[cell], results[f"{cell}/s"]["uncertainty"].get("confidence_interval")
        assert interval.defined == (ends is not None)
        if ends:
            assert (ends["lower"], ends["upper"]) == pytest.approx((interval.low / 100, interval.high / 100))
    for task, figures in stored["tasks"].items():
        details = {name: json.loads(text) for name, text in results[f"{task}/s"]["details"].items()}
        assert details | {"composite": figures["composite"], "n": figures["n"]} == figures
    assert results["ItineraryBasic/j"]["score"] == pytest.approx(judged.by_task().loc["ItineraryBasic", "j"])
    assert set(results) == {f"{cell}/s" for cell in stored["row"]} | {
        "ItineraryBasic/j",
        "ItineraryResponse/judge_score",
    }
    for result, of_result in by_result(lines).items():
        assert fmean(line["evaluation"]["score"] for line in of_result) == pytest.approx(results[result]["score"])
    assert len(by_result(lines)["ItineraryBasic/j"]) == 1  # of two: a judge of the other one failed


def test_lines_have_prompts_answers_references_and_usage(judged_run, tmp_path):
    content, lines = read(*export_results(judged_run, EEE, tmp_path / "out", MODEL))
    rows = {row["id"]: row for task in JUDGED for row in load(task)}
    predictions = {line["id"]: line for line in Run(judged_run).predictions}
    for line in (line for line in lines if line["sample_id"] in rows):
        row, prediction = rows[line["sample_id"]], predictions[line["sample_id"]]
        assert json.loads(line["input"]["formatted"]) == row["messages"]
        assert (line["input"]["raw"], line["input"]["reference"]) == (row["messages"][1]["content"], [row["reference"]])
        assert line["output"]["raw"] == [prediction["prediction"]]
        new = prediction["new_tokens"]
        assert line["token_usage"] == {"input_tokens": 9, "output_tokens": new, "total_tokens": 9 + new}
        assert (line["evaluation_id"], line["model_id"]) == (content["evaluation_id"], "org/Model-7B")
    (with_j,) = by_result(lines)["ItineraryBasic/j"]
    assert with_j["metadata"]["human_score"] == "4.5"
    assert json.loads(with_j["metadata"]["judges"]) == {"first-judge": 0.0, "second-judge": 1.0}


def test_metadata_tells_generation_judges_and_library(judged_run, tmp_path):
    source = Source("A Lab", "first_party", "org/Model-7B", "The Org", availability="open_weights", benchmark="a/b")
    content, _ = read(*export_results(judged_run, EEE, tmp_path / "out", source))
    results = {result["evaluation_result_id"]: result for result in content["evaluation_results"]}
    assert content["source_metadata"]["source_organization_name"] == "A Lab"
    assert content["source_metadata"]["evaluator_relationship"] == "first_party"
    assert content["model_info"]["developer"] == "The Org"
    assert content["model_info"]["inference_engine"]["name"] == "transformers"
    assert content["model_info"]["additional_details"]["model_availability"] == "open_weights"
    assert content["eval_library"]["additional_details"]["embedder"] == "hashed-words"
    basic = results["ItineraryBasic/s"]
    assert basic["generation_config"]["generation_args"]["max_tokens"] == 224
    assert (basic["source_data"]["hf_repo"], basic["source_data"]["samples_number"]) == ("a/b", 2)
    judging = results["ItineraryBasic/j"]["metric_config"]["llm_scoring"]
    assert [judge["model_info"]["id"] for judge in judging["judges"]] == list(JUDGES)
    assert "<<<BEGIN ANSWER" in judging["input_prompt"] and "{answer}" in judging["input_prompt"]


def test_only_the_highest_score_is_correct_and_the_file_says_so(tmp_path):
    folder = make_run(tmp_path / "run", "demo", limit=2, tasks=JUDGED[0], share=2)
    lines = (folder / "predictions.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["prediction"].split() == load(JUDGED[0])[0]["reference"].split()
    content, samples = read(*export_results(folder, EEE, tmp_path / "out", MODEL))
    assert [line["evaluation"]["is_correct"] for line in samples] == [True, True]
    (result,) = content["evaluation_results"]
    assert "highest possible" in result["metric_config"]["additional_details"]["is_correct"]
    assert "highest possible" in samples[0]["metadata"]["is_correct"]


def test_no_answer_is_correct_below_the_highest_score(judged_run, tmp_path):
    _, samples = read(*export_results(judged_run, EEE, tmp_path / "out", MODEL))
    assert not any(line["evaluation"]["is_correct"] for line in samples)


def test_a_repeated_export_replaces_its_own_files_only(judged_run, chinese_and_english, tmp_path):
    out = tmp_path / "out"
    export_results(chinese_and_english, EEE, out, MODEL)
    others = set(out.rglob("*.json*"))
    (first,) = export_results(judged_run, EEE, out, Source(model_id="org/Misspelt"))
    (again,) = export_results(judged_run, EEE, out, MODEL)
    assert first.name == again.name and not list(first.parent.iterdir())
    assert set(out.rglob("*.json*")) == others | set(again.parent.glob(f"{again.stem}*"))


def test_each_language_has_its_own_files(chinese_and_english, tmp_path):
    files = export_results(chinese_and_english, EEE, tmp_path / "out", MODEL)
    names = [[line["evaluation_name"] for line in read(file)[1]] for file in files]
    assert names == [["h2htalk/ItineraryBasic"], ["h2htalk-zh/ItineraryBasic"]]


def test_answers_with_odd_characters_stay_one_line_each(tmp_path):
    folder = make_run(tmp_path / "run", "demo", limit=1, tasks=JUDGED[0])
    line = json.loads((folder / "predictions.jsonl").read_text())
    line["prediction"] = "a\u2028b\x85c\ud800"
    (folder / "predictions.jsonl").write_text(json.dumps(line) + "\n")
    score = json.loads((folder / "score.json").read_text())
    del score["answers_digest"]
    (folder / "score.json").write_text(json.dumps(score))
    _, (sample,) = read(*export_results(folder, EEE, tmp_path / "out", MODEL))
    assert sample["output"]["raw"] == ["a\u2028b\x85c\ufffd"]


def refused(*arguments):
    """The one line with which a command is refused."""
    done = h2htalk("export", "results", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_the_command_refuses_in_one_line(judged_run, tmp_path):
    to_new = ["--format", EEE, "--out", tmp_path / "new"]
    assert "--model-id DEVELOPER/MODEL" in refused(judged_run, *to_new)
    (tmp_path / "unscored").mkdir()
    for name in ("run.json", "predictions.jsonl"):
        shutil.copyfile(judged_run / name, tmp_path / "unscored" / name)
    assert "not scored yet" in refused(tmp_path / "unscored", *to_new)
    assert not (tmp_path / "new").exists()


def test_foreign_folders_are_refused(judged_run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    harness = export("inspect", tmp_path / "harness", tasks=JUDGED[0], embedder="demo")
    for folder in (tmp_path / "mine", harness):
        before = sorted(folder.rglob("*"))
        with pytest.raises(H2HTalkError, match="is not an export; choose another folder"):
            export_results(judged_run, EEE, folder, MODEL)
        assert sorted(folder.rglob("*")) == before
    results = tmp_path / "results"
    export_results(judged_run, EEE, results, MODEL)
    with pytest.raises(H2HTalkError, match="is not an export"):
        export("inspect", results, tasks=JUDGED[0], embedder="demo")


def test_inspect_is_needed_only_for_its_own_format(judged_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai", None)  # as if it was not installed
    with pytest.raises(H2HTalkError, match="inspect-ai is not installed; run: pip install inspect-ai"):
        export_results(judged_run, "inspect", tmp_path / "log.eval")
    export_results(judged_run, EEE, tmp_path / "out", MODEL)


def test_other_runs_and_formats_are_refused(judged_run, tmp_path):
    with pytest.raises(H2HTalkError, match="Did you mean every-eval-ever"):
        export_results(judged_run, "every-eval", tmp_path / "out")
    folder = shutil.copytree(judged_run, tmp_path / "run")
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(manifest | {"prompts": manifest["prompts"] | {"hash": "0" * 64}}))
    with pytest.raises(H2HTalkError, match="had other prompts than this version's"):
        export_results(folder, EEE, tmp_path / "out", MODEL)
    manifest["dataset"]["tasks"] = ["SafetyHighRisk"]
    (folder / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(H2HTalkError, match="answers a probe set, which has no S"):
        export_results(folder, EEE, tmp_path / "out", MODEL)


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)  # with an installation
def test_the_validator_of_every_eval_ever_passes_both_files(judged_run, chinese_and_english, tmp_path):
    done = h2htalk("export", "results", judged_run, "--format", EEE, "--out", tmp_path, "--model-id", "org/Model:7B")
    assert done.returncode == 0, done.stderr
    export_results(chinese_and_english, EEE, tmp_path, MODEL)
    validate = [harness_command(EEE, "python"), "-m", "every_eval_ever", "validate", "--format", "json"]
    done = run(*map(str, validate), "data/*/*/*/*.json*", cwd=tmp_path)
    assert done.returncode == 0, done.stdout  # 1: errors, 2: warnings
    reports = json.loads(done.stdout)
    assert sorted(report["line_count"] for report in reports if report["file_type"] == "instance") == [1, 1, 25]


EXPORTS = """
import sys
from h2htalk_metric.export import export_results

for run, out in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        print(len(export_results(run, "inspect", out)), "written")
    except ValueError as error:
        print(error)
"""


def in_inspect(program, *arguments):
    """Run a program where Inspect is installed."""
    done = run(str(harness_command("inspect", "python")), "-c", program, *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)  # with an installation
def test_inspect_reads_the_log_with_all_scores(judged_run, tmp_path):
    command = ["export", "results", judged_run, "--format", "inspect", "--out", tmp_path / "run.eval"]
    in_inspect("from h2htalk_metric.cli.main import main; main()", *command, "--model-id", "org/Model")
    program = "import sys, inspect_ai.log as logs; print(logs.read_eval_log(sys.argv[1]).model_dump_json())"
    content = in_inspect(program, tmp_path / "run.eval")
    log = json.loads(content)
    assert (log["status"], log["eval"]["model"]) == ("success", "org/Model")
    check_results(log["results"]["scores"], judged_run)
    check_samples({sample["id"]: sample for sample in log["samples"]}, judged_run)
    assert "Ada Smith" not in content


def check_results(scores, folder):
    """Every metric of the log is the run's own."""
    metrics = {(part["scorer"], part["name"]): part["metrics"] for part in scores}
    values = {key: {name: metric["value"] for name, metric in own.items()} for key, own in metrics.items()}
    stored, judged = json.loads((folder / "score.json").read_text()), read_judged(folder)
    assert {cell: 100 * value for cell, value in values["h2htalk", "composite"].items()} == pytest.approx(stored["row"])
    for task, figures in stored["tasks"].items():
        for component in COMPONENTS:
            assert values["h2htalk", component][task] == pytest.approx(figures[component])
    assert values["J", "J"] == pytest.approx({"ItineraryBasic": judged.by_task().loc["ItineraryBasic", "j"]})
    assert values["judge first-judge", "score"] == {"ItineraryBasic": 0.0, "ItineraryResponse": 2.5}
    assert values["people", "score"] == {"ItineraryBasic": 4.5}
    (counts,) = (part for part in scores if part["scorer"] == "judge first-judge")
    assert (counts["scored_samples"], counts["unscored_samples"]) == (3, 1)


def check_samples(samples, folder):
    """Messages, answers, references and scores are the run's own."""
    records = {record["id"]: record for record in Run(folder).records}
    rows = read_scores(folder).items.set_index("id")
    assert samples.keys() == records.keys()
    for prediction in Run(folder).predictions:
        sample, row = samples[prediction["id"]], rows.loc[prediction["id"]]
        messages = [{"role": message["role"], "content": message["content"]} for message in sample["messages"]]
        answer = {"role": "assistant", "content": prediction["prediction"]}
        assert messages == [*records[prediction["id"]]["messages"], answer]
        assert sample["target"] == [records[prediction["id"]]["reference"]]
        assert sample["output"]["usage"]["output_tokens"] == prediction["new_tokens"]
        expected = {name: row[name] for name in ("composite", *COMPONENTS)}
        assert sample["scores"]["h2htalk"]["value"] == pytest.approx(expected)
    first, second = (samples[item.id]["scores"] for item in judge_items(Run(folder), JUDGED)[:2])
    assert first["people"]["value"] == {"score": 4.5}
    assert set(first["rater 2"]["value"].values()) == {5} and first["rater 2"]["explanation"] == "It is a 5."
    assert first["judge second-judge"]["value"]["score"] == 1
    assert first["judge second-judge"]["explanation"].count("second-judge says so.") == 2
    assert second["judge first-judge"]["explanation"] == UNSCORED and "J" not in second


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)  # with an installation
def test_an_inspect_log_replaces_only_a_log_of_ours(judged_run, chinese_and_english, tmp_path):
    file, foreign, logs = tmp_path / "run.eval", tmp_path / "mine", tmp_path / "logs"
    file.write_text("mine")
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    exports = [(judged_run, file), (judged_run, foreign), (chinese_and_english, tmp_path / "both.eval")]
    exports += [(chinese_and_english, logs), (chinese_and_english, logs)]
    lines = in_inspect(EXPORTS, *(argument for pair in exports for argument in pair)).splitlines()
    assert "is not an export" in lines[0] and "is not a folder of Inspect's logs" in lines[1]
    assert "2 languages, which have a log each" in lines[2]
    assert lines[3:] == ["2 written", "2 written"] and len(list(logs.iterdir())) == 2
    assert file.read_text() == "mine" and [path.name for path in foreign.iterdir()] == ["thesis.txt"]
