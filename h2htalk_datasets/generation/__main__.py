"""``accelerate launch -m h2htalk_datasets.generation``: takes the options of ``h2htalk generate``."""

import typer

from h2htalk_datasets.generation.cli import generate_command, run_app

app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
app.command()(generate_command)

if __name__ == "__main__":
    run_app(app)
