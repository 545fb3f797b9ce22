"""The command `h2htalk`."""

__all__ = ["app", "main"]

import typer

from h2htalk_datasets.generation.cli import current_name, generate_command, run_app
from h2htalk_metric.cli import runs
from h2htalk_metric.cli.compare import compare
from h2htalk_metric.cli.contamination import contamination_command
from h2htalk_metric.cli.corpus import corpus_app, describe, new_relationship
from h2htalk_metric.cli.export import export_app
from h2htalk_metric.cli.judge import judge_command
from h2htalk_metric.cli.leaderboard import leaderboard, submit
from h2htalk_metric.cli.probe import conversation, instructions, probe_app, safety
from h2htalk_metric.cli.publish import publish_command
from h2htalk_metric.cli.remember import remember_command
from h2htalk_metric.cli.review import review_app
from h2htalk_metric.cli.sweep import sweep_command

app = typer.Typer(
    help="Measure how well a language model works as an emotional companion.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # a traceback must not show keys
    context_settings={"token_normalize_func": current_name},
)
app.command("prepare")(runs.prepare)
app.command("run")(runs.run)
app.command("generate")(generate_command)
app.command("score")(runs.score)
app.command("report")(runs.report)
app.command("compare")(compare)
app.command("sweep")(sweep_command)
app.command("plan")(runs.plan)
app.command("verify")(runs.verify)
app.command("merge")(runs.merge)
app.command("judge")(judge_command)
app.add_typer(review_app, name="review")
app.add_typer(probe_app, name="probe")
app.command("remember")(remember_command)
app.command("sap", help="The same as `h2htalk probe safety`.")(safety)
app.command("follow", hidden=True, deprecated=True)(instructions)
app.command("converse", hidden=True, deprecated=True)(conversation)
app.command("leaderboard")(leaderboard)
app.command("submit")(submit)
app.add_typer(export_app, name="export")
app.command("publish")(publish_command)
app.command("describe")(describe)
app.command("check-contamination")(contamination_command)
app.add_typer(corpus_app, name="corpus")
app.command("new-relationship")(new_relationship)


def main() -> None:
    """Entry point: an error that the user can fix ends in one line and exit code 2."""
    run_app(app)
