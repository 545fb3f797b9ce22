"""``accelerate launch -m h2htalk_datasets.generation`` has the options of ``h2htalk generate``."""

import typer

from h2htalk_datasets.generation.cli import current_name, generate_command, run_app

app = typer.Typer(
    add_completion=False, pretty_exceptions_show_locals=False, context_settings={"token_normalize_func": current_name}
)
app.command()(generate_command)

if __name__ == "__main__":
    run_app(app)
