"""CSV cells that no spreadsheet runs."""

import csv
import io

import pytest

from h2htalk_metric.reports.csv_text import csv_text, escape_cell, unescape_cell


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\rx",
        "\n=1",
        "  =1",
        "＝1",
        "'=1",
        "527056344274",
        "557e40729",
        "'12",
        "''=1",
        "'",
        "plain",
        "",
        "a=b",
        "'tis",
    ],
)
def test_an_escaped_cell_is_not_a_formula_and_comes_back_unchanged(text):
    assert unescape_cell(escape_cell(text)) == text
    assert escape_cell(text).lstrip(" ")[:1] not in set("=+-@\t\r\n＝＋－＠") or not text


def test_every_text_is_escaped_and_every_field_quoted():
    text = csv_text(["name", "score", "note"], [{"name": "=1+1", "score": -1.5}, {"name": "a;=b", "note": "x, y"}])
    assert text == '"name","score","note"\r\n"\'=1+1","-1.5",""\r\n"a;=b","","x, y"\r\n'
    assert [row["name"] for row in csv.DictReader(io.StringIO(text))] == ["'=1+1", "a;=b"]
