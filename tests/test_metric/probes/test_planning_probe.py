"""`h2htalk probe planning`: plans and replans of a model, checked by program."""

import json
import shutil

import pytest
from helpers.board_runs import make_run
from helpers.commands import h2htalk
from helpers.probe_scripts import run_behind
from helpers.report_runs import HOSTILE, scored_run
from helpers.servers import scripted

from h2htalk_datasets.generation.requests import chosen_probes, chosen_rows
from h2htalk_metric.cli.probe import planning
from h2htalk_metric.leaderboard.from_run import make_submission
from h2htalk_metric.probes.planning import measure_plans
from h2htalk_metric.probes.results import read_result, write_result
from h2htalk_metric.reports.report import write_report
from h2htalk_metric.runs.run import Run

LIMIT = 4
ROWS = chosen_probes("CompanionPlanning", LIMIT)


def turn(number):
    return [row for row in ROWS if row["turn"] == number]


def record_of(request):
    """The record whose prompt a request holds, whatever the model's first plan was."""
    prompt = request["messages"][1]["content"]
    return max(
        (row for row in ROWS if all(said["content"] in prompt for said in row["history"] if said["role"] == "user")),
        key=lambda row: row["turn"],
    )


def shipped(request):
    return record_of(request)["reference"]


def measured(answer, folder, **options):
    """The result of a model that answers by a function of its requests; and the requests."""
    with scripted(answer) as model:
        run = run_behind(model, folder)
        planning(run_folder=run, limit=LIMIT, **options)
        return read_result(run, "planning"), [request["messages"][1]["content"] for request in model.requests]


def test_the_shipped_plans_are_perfect(tmp_path):
    result, prompts = measured(shipped, tmp_path / "run")
    assert len(prompts) == result["n"] == 2 * LIMIT
    assert result["shown"] == {"own": LIMIT, "shipped": 0}
    for number in ("1", "2"):
        of_all = result["figures"][number]["all"]
        assert [of_all[name]["value"] for name in ("parsed", "valid", "constraints", "planned")] == [1, 1, 1, 1]
        assert all(figure["value"] == 0 for figure in result["kinds"][number]["all"].values())
        assert sum(figures["valid"]["n"] for level, figures in result["figures"][number].items() if level != "all") == 4
    assert result["figures"]["2"]["all"]["unnecessary"]["value"] == 0
    assert result["figures"]["both"]["all"]["valid"]["value"] == 1


def test_without_a_readable_first_plan_the_shipped_one_is_shown_and_counted(tmp_path):
    result, prompts = measured(
        lambda request: shipped(request) if record_of(request)["turn"] == 2 else "Let us talk about it.",
        tmp_path / "run",
    )
    assert result["shown"] == {"own": 0, "shipped": LIMIT}
    for row in turn(1):
        assert any(row["reference"] in prompt for prompt in prompts)
    assert result["figures"]["1"]["all"]["parsed"]["value"] == result["figures"]["1"]["all"]["valid"]["value"] == 0
    assert result["figures"]["2"]["all"]["valid"]["value"] == 1
    assert result["figures"]["both"]["all"]["valid"]["value"] == 0
    assert [*result["kinds"]["1"]["all"]] == ["omission"]


def test_the_model_sees_its_own_first_plan(tmp_path):
    own = "My plan, dear:\n"
    _, prompts = measured(lambda request: own + shipped(request), tmp_path / "run")
    assert sum(own in prompt for prompt in prompts) == LIMIT
    records = Run(tmp_path / "run" / "probes" / "planning").records
    heard = [row["history"][1]["content"] for row in records if row["turn"] == 2]
    assert heard == [own + row["reference"] for row in turn(1)]


def both_rows(scenario):
    return [row for row in chosen_probes("CompanionPlanning") if row["scenario"] == scenario]


def test_values_by_hand():
    """The first plan leaves out one of five activities. The replan moves three: one has to move, one does not."""
    first, second = both_rows("consuelo-santa-ana")
    plan = [line for line in first["reference"].splitlines() if "landing" not in line]
    moved = second["reference"].replace("Fri 18:30-20:00 carrying", "Fri 16:30-18:00 carrying")
    assert moved != second["reference"]
    result = measure_plans([first, second], ["\n".join(plan), moved])
    of_first, of_second = (result["figures"][number]["all"] for number in ("1", "2"))
    assert [of_first[name]["value"] for name in ("parsed", "valid", "planned")] == [1, 0, 0.8]
    assert of_first["constraints"]["value"] == pytest.approx(6 / 7)  # the promise about the landing is not met
    omission = result["kinds"]["1"]["all"]["omission"]
    assert (omission["n"], omission["value"]) == (5, 0.2)
    # The dress fitting stays, the speech has to move, the chairs could have stayed.
    assert of_second["unnecessary"]["value"] == 1
    assert of_second["moved"]["value"] == 0.5
    assert of_second["valid"]["value"] == 0  # the school keeps Ignacio until five
    assert result["kinds"]["2"]["all"]["appointment"]["value"] == pytest.approx(0.5)


def test_a_repeated_activity_makes_a_plan_invalid():
    rows = both_rows("rhys-payday-week")
    twice = rows[0]["reference"] + "\nMon 05:00-06:00 walk with Gravy"
    result = measure_plans(rows, [twice, rows[1]["reference"]])
    assert result["figures"]["1"]["all"]["valid"]["value"] == 0
    assert result["kinds"]["1"]["all"]["repetition"]["value"] == 0.25


def test_a_dry_run_sends_nothing_and_the_same_command_continues(tmp_path, capsys):
    with scripted(shipped) as model:
        run = run_behind(model, tmp_path / "run")
        planning(run_folder=run, limit=LIMIT, dry_run=True)
        assert f"{2 * LIMIT} answers to generate" in capsys.readouterr().out and model.requests == []
        planning(run_folder=run, limit=LIMIT)
        before = (run / "probes" / "planning.json").read_bytes()
        planning(run_folder=run, limit=LIMIT, dry_run=True)
        assert "0 answers to generate" in capsys.readouterr().out
        planning(run_folder=run, limit=LIMIT)
        assert len(model.requests) == 2 * LIMIT
    assert (run / "probes" / "planning.json").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "named"),
    [(("--limit", 0), "--limit"), (("--limit", 3), "use the same limit"), (("--judge", "m"), "No such option")],
)
def test_wrong_options_are_one_line(tmp_path, options, named):
    with scripted(shipped) as model:
        run = run_behind(model, tmp_path / "run")
        planning(run_folder=run, limit=1)
        refused = h2htalk("probe", "planning", run, *options)
    assert refused.returncode == 2 and named in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_folder_without_a_run_is_one_line(tmp_path):
    refused = h2htalk("probe", "planning", tmp_path / "none")
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1 and "none" in refused.stderr


def test_the_report_has_a_section_and_hostile_names_are_text(tmp_path):
    scored = scored_run(tmp_path / "scored", chosen_rows("ItineraryResponse", 1), ["An answer."]).path
    result, _ = measured(lambda request: f"{shipped(request)}\nTue 10:00-11:00 {HOSTILE}", tmp_path / "run")
    assert result["unknown"] == 2 * LIMIT
    write_result(scored, "planning", result | {"model": HOSTILE})
    markdown, page = (file.read_text("utf-8") for file in write_report(scored))
    assert "## Plans over days\n" in markdown and "<h2>Plans over days</h2>" in page
    assert "| plan | all |" in markdown and "hard (10 to 14)" in page
    assert "<script>document" not in page


def test_figures_are_claimed_on_the_board(tmp_path):
    run = make_run(tmp_path / "run", "m", limit=2)
    result, _ = measured(shipped, tmp_path / "probed")
    copy = shutil.copytree(run, tmp_path / "copy")
    write_result(copy, "planning", result)
    claimed = make_submission(copy, "1-8B").claims.claimed_only["planning"]
    assert claimed["scenarios"] == LIMIT and claimed["plan, all: valid"].startswith("1.000 (")
    assert claimed["replan, all: unnecessary changes"].startswith("0.000")


@pytest.mark.very_slow
@pytest.mark.slow
def test_the_demo_model_in_a_real_run(tmp_path):
    run = tmp_path / "run"
    options = ("--model", "demo", "--embedder", "demo", "--limit", 1, "--tasks", "ItineraryResponse", "--out", run)
    assert h2htalk("run", *options).returncode == 0
    probed = h2htalk("probe", "planning", run, "--limit", 2)
    assert probed.returncode == 0, probed.stderr
    result = json.loads((run / "probes" / "planning.json").read_text())
    assert (result["n"], result["scenarios"]) == (4, 2)
    assert "Plans over days" in (run / "report.html").read_text("utf-8")
