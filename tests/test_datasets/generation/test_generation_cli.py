"""The options of generation: declared once in Settings, the same for every command that has them."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from h2htalk_datasets.generation import Settings
from h2htalk_datasets.generation.__main__ import app as module
from h2htalk_datasets.generation.cli import OutOption, current_name
from h2htalk_datasets.options import with_options


@pytest.fixture
def received():
    return {}


@pytest.fixture
def invoke(received):
    """Run a command that has the options of generation and one of its own."""
    app = typer.Typer(context_settings={"token_normalize_func": current_name})

    @app.command()
    @with_options(settings=Settings)
    def command(settings: Settings, out: OutOption, own: Annotated[str, typer.Option()] = "default") -> None:
        received.update(settings=settings, out=out, own=own)

    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_options_reach_the_settings_and_the_others_have_their_defaults(invoke, received):
    options = ["--model", "m", "--out", "run", "--batch-size", "2", "--fold-system", "--top-p", "0.5"]
    assert invoke(*options).exit_code == 0
    settings = Settings(model="m", batch_size=2, fold_system=True, top_p=0.5)
    assert received == {"settings": settings, "out": Path("run"), "own": "default"}


@pytest.mark.parametrize("name", ["--max-connections", "--in-flight", "--concurrency"])
def test_old_names_of_an_option_are_accepted(name, invoke, received):
    assert invoke("--model", "m", "--out", "run", name, "4").exit_code == 0
    assert received["settings"].max_connections == 4


def test_the_module_shows_every_option_and_no_old_name():
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(module, ["--help"]).stdout
    names = {f"--{field.name.replace('_', '-')}" for field in fields(Settings)} - {"--probe", "--persona-text"}
    assert {name for name in names if name not in shown} == set()
    assert "--in-flight" not in shown and "--probe" not in shown


def test_missing_and_wrong_values_end_with_code_2(invoke):
    assert invoke("--model", "m").exit_code == 2
    assert invoke("--model", "m", "--out", "run", "--top-p", "2").exit_code == 2
