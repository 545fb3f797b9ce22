"""The documentation: its links lead somewhere, and the commands, options, imports and paths in it exist."""

import ast
import importlib
import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer
from helpers.markdown_files import MARKDOWN_FILES, read_page
from helpers.paths import ROOT

from h2htalk_metric.cli.main import app

PROGRAM = typer.main.get_command(app)
DEFAULT_COMMANDS = {"review": "page"}  # the command that may be left out
MODULE = "h2htalk_datasets.generation"
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PACKAGES = (ROOT / "h2htalk_datasets", ROOT / "h2htalk_metric")
CARDS = [file for file in MARKDOWN_FILES if any(file.is_relative_to(package) for package in PACKAGES)]
# Options of other programs that the text names.
FOREIGN_OPTIONS = {"--requeue", "--apply_chat_template", "--nodes", "--gpus-per-node", "--no-deps", "--nproc_per_node"}

files = pytest.mark.parametrize("file", MARKDOWN_FILES, ids=lambda file: str(file.relative_to(ROOT)))


def split_commands(text: str) -> list[list[str]]:
    """The simple commands of a shell script: words, without comments and redirections."""
    lines = text.replace("\\\n", " ").splitlines()
    words = [word for line in lines for word in [*shlex.split(line, comments=True), ";"]]
    commands: list[list[str]] = [[]]
    for word in words:
        if word in (";", "&&", "||", "|", "&"):
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def h2htalk_arguments(command: list[str]) -> list[str] | None:
    """The arguments of ``h2htalk``, also if a launcher starts the module; None for any other command."""
    if command[0] == "h2htalk":
        return command[1:]
    if MODULE in command and command[command.index(MODULE) - 1] == "-m":
        return ["generate", *command[command.index(MODULE) + 1 :]]
    return None


def resolve(arguments: list[str]):
    """The command that the arguments name, its full name, and the arguments that are left for it."""
    command, name, rest = PROGRAM, "h2htalk", list(arguments)
    while commands := getattr(command, "commands", None):
        if rest and rest[0] in commands:
            word = rest.pop(0)
        else:
            word = DEFAULT_COMMANDS.get(name.rsplit(maxsplit=1)[-1])
            if not rest or word is None:
                return command, name, rest
        command, name = commands[word], f"{name} {word}"
    return command, name, rest


def option_names(command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def all_option_names(command=PROGRAM) -> set[str]:
    below = getattr(command, "commands", {}).values()
    return option_names(command).union(*map(all_option_names, below))


def check_command(arguments: list[str]) -> None:
    """Fail if ``h2htalk ARGUMENTS`` names a command or an option that does not exist, or would not parse."""
    command, name, rest = resolve(arguments)
    if rest in ([], ["--help"]) and getattr(command, "commands", None):
        return
    assert not getattr(command, "commands", None), f"{name} has no command {rest[0]!r}"
    assert not command.hidden, f"{name} is an old name"
    unknown = {word.split("=")[0] for word in rest if word.startswith("--")} - option_names(command)
    assert not unknown, f"{name} has no {', '.join(sorted(unknown))}"
    if "--help" not in rest and "..." not in rest:
        command.make_context(name, rest).close()  # raises if a value is missing or wrong


@files
def test_every_relative_link_leads_somewhere(file: Path):
    for link in read_page(file).links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / unquote(path)).resolve() if path else file
        assert target.exists(), f"{link}: no such file"
        assert target.is_relative_to(ROOT), f"{link}: outside of the project"
        if anchor:
            assert anchor in read_page(target).anchors, f"{link}: no such heading"


@pytest.mark.parametrize("file", CARDS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_card_links_only_into_its_own_folder(file: Path):
    """A card is published without the rest of the project."""
    outside = [link for link in read_page(file).links if not re.match(r"[a-z]+:", link) and link.startswith("../")]
    assert outside == []


@files
def test_every_command_exists_with_its_options(file: Path):
    for block in read_page(file).blocks:
        if block.language in ("sh", "bash"):
            for command in split_commands(block.text):
                if (arguments := h2htalk_arguments(command)) is not None:
                    check_command(arguments)


@files
def test_every_command_and_option_in_the_text_exists(file: Path):
    if file.name == "CHANGELOG.md":  # it names what was removed
        return
    for code in read_page(file).inline_code:
        if re.match(r"h2htalk( |$)", code) and "..." not in code:
            command, name, rest = resolve(shlex.split(code)[1:])
            if getattr(command, "commands", None):
                assert not rest or rest == ["--help"], f"{code}: {name} has no command {rest[0]!r}"
            unknown = {word for word in rest if word.startswith("--")} - option_names(command)
            assert not unknown, f"{code}: {name} has no {unknown}"
        elif re.match(r"--[a-z]", code):
            option = re.split(r"[ =]", code)[0]
            assert option in all_option_names() | FOREIGN_OPTIONS, f"{option}: no command has it"


@files
def test_every_python_block_compiles_and_its_imports_exist(file: Path):
    for block in read_page(file).blocks:
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("h2htalk_"):
                module = importlib.import_module(str(node.module))
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


@pytest.mark.parametrize("file", [*ROOT.glob("*.md"), *DOCS], ids=lambda file: str(file.relative_to(ROOT)))
def test_every_path_in_the_text_exists(file: Path):
    if file.name == "CHANGELOG.md":
        return
    for code in read_page(file).inline_code:
        is_path = re.fullmatch(r"(h2htalk_\w+|cluster|benchmarks|tests|docs|notebooks)/[\w./-]*", code)
        if is_path and not re.search("NAME|LANGUAGE", code):
            assert (ROOT / code).exists(), f"{code}: no such file"


def test_the_readme_is_short_and_names_every_page():
    assert len(README.read_text("utf-8").splitlines()) <= 150
    linked = {link.partition("#")[0] for link in read_page(README).links}
    assert {f"docs/{file.name}" for file in DOCS} <= linked


def test_the_page_on_generation_names_every_option():
    named = set(re.findall(r"`(--[a-z-]+)`", (ROOT / "docs" / "generation.md").read_text("utf-8")))
    assert option_names(PROGRAM.commands["generate"]) - named == {"--help"}


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.name)
def test_a_page_begins_with_its_command_and_what_it_prints(file: Path):
    page = read_page(file)
    assert page.kinds[:3] == ["heading", "fence", "fence"]
    assert [block.language for block in page.blocks[:2]] == ["sh", "text"]
    assert "@@" not in file.read_text("utf-8"), "an output is missing"


def test_the_checks_themselves_find_errors():
    for arguments in (
        ["runn"],
        ["run", "--no-such-option"],
        ["run", "--model"],
        ["review", "export", "--controls", "3"],
    ):
        with pytest.raises((AssertionError, Exception)):
            check_command(arguments)
    assert split_commands("a \\\n  --b 'c d'  # e\nf && g | h") == [["a", "--b", "c d"], ["f"], ["g"], ["h"]]
    launcher = ["accelerate", "launch", "-m", MODULE, "--model", "m"]
    assert h2htalk_arguments(launcher) == ["generate", "--model", "m"]
    assert h2htalk_arguments(["pip", "install", "h2htalk"]) is None
