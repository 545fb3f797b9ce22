"""A user's own corpus: skeletons, checks, the built dataset, wrong input, and the user's own prompts."""

import json
from pathlib import Path

import pytest
import yaml
from datasets import load_dataset

from h2htalk_datasets import load, render
from h2htalk_datasets.corpus.own import build_folder, check_folder, new_relationship, read_folder
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_datasets.own_data import load_data


@pytest.fixture
def corpus(tmp_path):
    """One English and one Chinese skeleton."""
    folder = tmp_path / "corpus"
    for language in ("en", "zh"):
        new_relationship("night-tram", language, folder)
    return folder


def changed(file: Path, change) -> None:
    source = yaml.safe_load(file.read_text("utf-8"))
    change(source)
    file.write_text(yaml.safe_dump(source, allow_unicode=True, sort_keys=False), "utf-8")


def test_skeletons_are_numbered_and_valid(corpus):
    assert sorted(file.name for file in corpus.iterdir()) == ["01-night-tram.yaml", "02-night-tram.yaml"]
    records, checks = check_folder(corpus)
    assert [record.id for record in records[::3]] == ["en-001-DialogueBase-001", "zh-002-DialogueBase-001"]
    assert all(check.passed for check in checks if not check.is_advice)
    assert any(not check.passed for check in checks)  # three records cannot have the shares of many


@pytest.mark.parametrize("slug", ["Night", "a b", "../x", "", "nacht-straße"])
def test_a_slug_has_small_letters_digits_and_hyphens(tmp_path, slug):
    with pytest.raises(H2HTalkError, match="is not a slug"):
        new_relationship(slug, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_number_is_used_once(corpus):
    with pytest.raises(H2HTalkError, match="02-night-tram.yaml has that number already"):
        new_relationship("2-other", folder=corpus)
    assert new_relationship("other", folder=corpus).name == "03-other.yaml"


def test_folder_and_built_dataset_give_the_same_rows(corpus, tmp_path):
    counts = build_folder(corpus, tmp_path / "data")
    assert counts["DialogueBase"] == counts["ItineraryMiddle-zh"] == 1
    built, written = load_data(str(tmp_path / "data")), load_data(str(corpus))
    assert fingerprint(built.rows) == fingerprint(written.rows)
    assert built.name == written.name == "corpus" and built.languages == ["en", "zh"]
    rows = load_dataset(str(tmp_path / "data"), "DialogueBase-zh", split="test")
    assert rows[0]["id"] == "zh-002-DialogueBase-001" and rows[0]["messages"] == render(rows[0])
    assert [row["id"][:2] for row in chosen_rows(data=built, tasks="ItineraryMiddle")] == ["en", "zh"]
    assert len(chosen_rows(data=built, language="zh")) == 3
    with pytest.raises(H2HTalkError, match="has no records of ItineraryBasic in en, zh"):
        chosen_rows("ItineraryBasic", data=built)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda s: s["records"].update(DialogBase=[]), "01-night-tram.yaml: records: unknown task 'DialogBase'"),
        (
            lambda s: s["records"]["DialogueBase"][0].update(reference="word " * 44),
            "01-night-tram.yaml: DialogueBase 1: reference: 44 words, the limit is 40",
        ),
        (
            lambda s: s["records"]["ItineraryMiddle"][0].update(alternatives=["08:00 Up"]),
            "01-night-tram.yaml: ItineraryMiddle 1: alternative 1: 1 timed lines, expected 5 to 8",
        ),
        (
            lambda s: s["records"]["DialogueBase"][0].update(reference="坐下喝，没人赶你，豆浆给你留着呢。"),
            "01-night-tram.yaml: DialogueBase 1: language: the file is in 'en', the record is not",
        ),
        (lambda s: s.update(language=["en", "zh"]), "01-night-tram.yaml: language: Input should be 'en' or 'zh'"),
        (lambda s: s.update(language="de"), "01-night-tram.yaml: language: Input should be 'en' or 'zh'"),
        (lambda s: s["records"]["DialogueBase"][0].pop("need"), "01-night-tram.yaml: DialogueBase 1: need: is missing"),
    ],
)
def test_wrong_input_names_file_record_and_rule(corpus, tmp_path, change, line):
    changed(corpus / "01-night-tram.yaml", change)
    assert any(problem.startswith(line) for problem in read_folder(corpus)[1])
    with pytest.raises(H2HTalkError) as error:
        build_folder(corpus, tmp_path / "data")
    assert str(corpus) in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "data").exists()


def test_two_files_with_one_number_have_the_same_ids(corpus):
    (corpus / "1-again.yaml").write_text(
        (corpus / "01-night-tram.yaml").read_text().replace("01-night-tram", "1-again")
    )
    problems = read_folder(corpus)[1]
    assert problems == ["1-again.yaml: id: has the number of 01-night-tram.yaml, so their records have the same ids"]


def test_data_that_cannot_be_used_is_one_line(corpus, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, message in {
        str(empty): "has no relationship files and is not a dataset",
        str(tmp_path / "absent"): "no data at",
        str(corpus / "01-night-tram.yaml"): "no data at",
    }.items():
        with pytest.raises(H2HTalkError, match=message):
            load_data(source)
    build_folder(corpus, tmp_path / "data")
    manifest = tmp_path / "data" / "en" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"fingerprint": "0" * 64}))
    with pytest.raises(H2HTalkError, match="are not those of its manifest.json"):
        load_data(str(tmp_path / "data"))
    (tmp_path / "data" / "en" / "DialogueBase.parquet").write_bytes(b"no")
    with pytest.raises(H2HTalkError, match="DialogueBase.parquet cannot be read"):
        load_data(str(tmp_path / "data"))


@pytest.fixture
def templates(tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    return folder


def test_templates_of_ones_own_replace_the_shipped_ones(templates):
    row = load("DialogueBase")[0]
    (templates / "DialogueBase.jinja").write_text(
        "{% block instructions %}Be brief, {{ record.companion }}.{% endblock %}{% block material %}Go.{% endblock %}"
    )
    system, user = render(row, templates=templates)
    assert system["content"].endswith(f"Be brief, {row['companion']}.") and user["content"] == "Go."
    other = load("ItineraryMiddle")[0]
    assert render(other, templates=templates) == render(other)


def test_each_language_may_have_a_folder_of_templates(templates):
    (templates / "zh").mkdir()
    (templates / "zh" / "persona.jinja").write_text("你是{{ companion }}。{{ persona }}")
    chinese, english = load("DialogueBase", "zh")[0], load("DialogueBase")[0]
    assert "由AI扮演" not in render(chinese, templates=templates)[0]["content"]
    assert "由AI扮演" in render(chinese)[0]["content"]
    with pytest.raises(H2HTalkError, match="no template has that name"):
        (templates / "dialogue.jinja").write_text("")
        render(english, templates=templates)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "DialogueBase.jinja",
            "{% block instructions %}{{ recrod.user }}{% endblock %}{% block material %}{% endblock %}",
            "en-001-DialogueBase-001: 'recrod' is undefined",
        ),
        ("DialogueBase.jinja", "{% block instructions %}", "line 1: en-001-DialogueBase-001: "),
        ("DialogueBase.jinja", "{% block material %}{% endblock %}", "the block 'instructions' is missing"),
        ("DialogBase.jinja", "", "no template has that name. Did you mean DialogueBase.jinja"),
        ("sap.yaml", "opening: 7", "needs `opening` and `principles`"),
    ],
)
def test_a_wrong_template_is_one_line(templates, name, text, message):
    (templates / name).write_text(text)
    with pytest.raises(H2HTalkError) as error:
        render(load("DialogueBase")[0], templates=templates)
    assert message in str(error.value) and str(templates) in str(error.value) and "\n" not in str(error.value)


def test_templates_in_no_folder_are_named(tmp_path):
    with pytest.raises(H2HTalkError, match="there is no folder of templates"):
        render(load("DialogueBase")[0], templates=tmp_path / "absent")
