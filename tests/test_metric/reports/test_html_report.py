"""`report.html`: its content, that hostile text is never run, and that it works in a browser without a network."""

import base64
import gzip
import json
import random
import re
import shutil
from dataclasses import replace

import pytest
from helpers.html_elements import elements_of
from helpers.judge_scripts import CRITERIA
from helpers.report_runs import HOSTILE, scored_run

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_datasets.prompts import SAP
from h2htalk_metric.judge.judge_items import judge_items
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.judge.judgement import Judgement, append_judgement, item_key
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.reports.answers import extremes, packed, read_answers
from h2htalk_metric.reports.report import write_report
from h2htalk_metric.review import Reviews
from h2htalk_metric.review.sampling import review_items
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """All 4,650 records, answered by the words of others' references."""
    rows, draw = chosen_rows(), random.Random(0)
    vocabulary = [word for row in rows for word in row["reference"].split()]
    answers = [" ".join(draw.choices(vocabulary, k=len(row["reference"].split()))) for row in rows]
    answers[0], answers[1], answers[2] = HOSTILE, "", "A lone surrogate \ud800, a ]]> and a \x00 go by. Quokka."
    folder = tmp_path_factory.mktemp("report") / "run"
    run = scored_run(folder, rows, answers)
    return html_of(run), read_scores(run), rows


def html_of(run):
    """The file of the run's HTML report, written now."""
    return next(file for file in write_report(Run(run.path)) if file.suffix == ".html")


def data_of(page):
    """What the page's script unpacks."""
    packed_items = re.search(r'<script id="data"[^>]*>([A-Za-z0-9+/=]*)</script>', page)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed_items)))


def test_nothing_from_outside_comes_alive_and_nothing_is_fetched(full):
    page = full[0].read_text("utf-8")
    elements = elements_of(page)
    assert [tag for tag, _ in elements].count("script") == 2  # the data and the page's own
    assert "img" not in [tag for tag, _ in elements]
    assert all(name not in attributes for _, attributes in elements for name in ("src", "srcset", "onerror"))
    assert {a["href"][0] for _, a in elements if "href" in a} <= {"#", "d"}  # within the page, and the empty icon
    assert "&lt;/script&gt;&lt;script&gt;" in page


def test_a_full_run_stays_small(full):
    assert full[0].stat().st_size < 2.2e6


def test_the_data_hold_every_answer_with_what_the_model_was_sent(full):
    data, (_, scores, rows) = data_of(full[0].read_text("utf-8")), full
    items = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
    assert [item["id"] for item in items] == [row["id"] for row in rows]
    for place in (0, 1, 2000, 4649):
        item, row = items[place], rows[place]
        assert "\n\n".join(data["paragraphs"][number] for number in item["system"]) == row["messages"][0]["content"]
        assert item["prompt"] == row["messages"][1]["content"]
        assert item["reference"] == row["reference"]
        assert float(item["s"]) == pytest.approx(100 * scores.items["composite"][place], abs=0.051)
        for name, value in zip(COMPONENTS, item["components"], strict=True):
            assert float(value) == pytest.approx(100 * scores.items[name][place], abs=0.051)
    assert items[0]["flags"] == ["format error", "cut off"]
    assert items[0]["format_error"] == "90 words, the limit is 40"
    assert items[1]["flags"] == ["empty"]
    assert items[2]["answer"] == "A lone surrogate \ufffd, a ]]> and a \x00 go by. Quokka."


def test_a_removed_principle_is_not_shown_as_sent(tmp_path):
    rows = chosen_rows("ItineraryResponse", 2)
    kept = [name for name in SAP if name != "autonomy"]
    data = data_of(html_of(scored_run(tmp_path / "run", rows, ["Yes.", "No."], kept)).read_text("utf-8"))
    assert not any("Their life, their choice" in part for part in data["paragraphs"])
    assert any("Secure base" in part for part in data["paragraphs"])


def test_few_configs_make_no_radar_and_no_overall(tmp_path):
    rows = chosen_rows("ItineraryResponse,DialogueBase", 2)
    page = html_of(scored_run(tmp_path / "run", rows, ["Yes.", "", "No.", ""])).read_text("utf-8")
    assert 'class="radar"' not in page
    assert "<dt>Overall S</dt><dd>–</dd>" in page


def test_scores_of_other_records_are_refused(tmp_path):
    run = scored_run(tmp_path / "run", chosen_rows("ItineraryResponse", 3), ["a", "b", "c"])
    read_scores(run).items.iloc[[1, 0, 2]].to_parquet(run.path / "scores.parquet")
    with pytest.raises(H2HTalkError, match="scores of other records"):
        write_report(run.path)


@pytest.fixture(scope="module")
def an_answer(tmp_path_factory):
    """An answer, to be changed by `dataclasses.replace`."""
    run = scored_run(tmp_path_factory.mktemp("one") / "run", chosen_rows("ItineraryResponse", 1), ["Yes."])
    return replace(read_answers(run)[0], flags=())


@pytest.mark.parametrize(
    ("figures", "lowest", "highest"),
    [
        ([5, 1, 4, 2, 3, 6, 0], [0, 1, 2], [6, 5, 4]),
        ([9, 8, 7], [7, 8], [9]),
        ([10, 9], [9], [10]),
        ([1], [1], []),
        ([], [], []),
    ],
)
def test_extremes_are_disjoint_and_ordered_as_numbers(an_answer, figures, lowest, highest):
    answers = [replace(an_answer, s=f"{figure:.1f}") for figure in figures]
    low, high = extremes([*answers, replace(an_answer, s="0.0", flags=("empty",))])
    assert [float(answer.s) for answer in low] == lowest
    assert [float(answer.s) for answer in high] == highest


def test_packing_is_deterministic_and_shares_paragraphs(an_answer):
    answers = [replace(an_answer, id="a", system="one\n\ntwo"), replace(an_answer, id="b", system="one\n\nthree")]
    assert packed(answers) == packed(answers)
    content = json.loads(gzip.decompress(base64.b64decode(packed(answers))))
    assert content["paragraphs"] == ["one", "two", "three"]
    place = content["columns"].index("system")
    assert [(row[0], row[place]) for row in content["rows"]] == [("a", [0, 1]), ("b", [0, 2])]


# A judged run: two judges, of which one failed once, and one item that people marked


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Three ItineraryBasic, two ItineraryMiddle, one that is not judged; S = 0.5, so J = 1.5 + 0.4 J_judge.

    The marks of judge a, then of judge HOSTILE (None where it failed): 5 4, 5 5, 2 None | 0 2, 5 5.
    """
    folder = tmp_path_factory.mktemp("judged") / "run"
    rows = [row for task, n in (("ItineraryBasic", 3), ("ItineraryMiddle", 2)) for row in chosen_rows(task, n)]
    rows += chosen_rows("ItineraryResponse", 1)
    run = scored_run(folder, rows, [f"Answer {place}." for place in range(6)], composite=0.5)
    Panel(("a", HOSTILE)).write(folder)
    items = judge_items(folder)
    for judge, marks in (("a", [5, 5, 2, 0, 5]), (HOSTILE, [4, 5, None, 2, 5])):
        for item, mark in zip(items, marks, strict=True):
            append_judgement(folder, judgement(item, judge, mark))
    reviews = Reviews.create(folder, review_items(folder), {"seed": 0})
    for rater in ("Ana", "Ben"):
        reviews.save(items[3].id, rater, dict.fromkeys(CRITERIA, 4))
    return html_of(run), [row["id"] for row in rows]


def judgement(item, judge, mark):
    """The same mark for every criterion, a position bias of 0.5 for a 4 or 5 and none otherwise; None: unscored."""
    about = (item.id, item.rubric.name, judge, item_key(item, judge, 0, 0))
    if mark is None:
        return Judgement(*about, unscored=f"no reply\n{HOSTILE}")
    explanations = {"answer_first": [f"It deserves a {mark}.\nb, answer first: {HOSTILE}"], "reference_first": ["So."]}
    scores, bias = dict.fromkeys(CRITERIA, float(mark)), 0.5 if mark > 3 else 0.0
    return Judgement(*about, scores=scores, score=float(mark), position_bias=bias, explanations=explanations)


def cells_of(page, section):
    """The texts of a section's rows of configs, cell by cell, without plots."""
    body = re.search(rf'<section id="{section}".*?</section>', page, re.DOTALL)[0]
    rows = re.findall(
        r'<tr class="Itinerary">(.*?)</tr>', re.sub(r"<svg.*?</svg>", "", body, flags=re.DOTALL), re.DOTALL
    )
    return [["".join(re.split(r"<[^>]*>", cell)).strip() for cell in re.split(r"</t[hd]>", row)[:-1]] for row in rows]


def test_a_judged_run_by_hand(judged):
    page = judged[0].read_text("utf-8")
    # J: 3.3 and 3.5, the third unscored | 1.9 by the judge, 3.1 by people, and 3.5. With two relationships each, the
    # quantile of t is 12.71 (for 80% power 1.38), and the standard errors are 0.1 and 0.2.
    basic, middle, basic_counts, middle_counts = cells_of(page, "judged")
    assert basic == ["ItineraryBasic", "2.50", "4.75", "3.40", "68.00", "2.13 to 4.67", "1.99", ""]
    assert middle == ["ItineraryMiddle", "2.50", "3.00", "3.30", "66.00", "0.76 to 5.00", "3.98", ""]
    assert basic_counts == ["ItineraryBasic", "3", "2", "1", "1", "0", "0.50", "0.50"]
    assert middle_counts == ["ItineraryMiddle", "2", "2", "0", "1", "1", "0.25", "1.00"]
    assert "J = 0.6 S5 + 0.4 J_judge" in page
    assert "Agreement of the panel (Krippendorff&#39;s alpha, interval): scores 0." in page
    assert "unscored, 1: &lt;/script&gt;" in page
    assert re.search(r'<th>flagged</th>\s*<td class="number">2</td>\s*<td class="number">1</td>', page)
    assert f"judge:a,{HOSTILE}".replace("<", "&lt;").replace(">", "&gt;").replace('"', "&#34;") in page
    assert [tag for tag, _ in elements_of(page)].count("script") == 2


def test_judged_items_say_who_gave_what_and_why(judged):
    file, ids = judged
    data = data_of(file.read_text("utf-8"))
    items = {row[0]: dict(zip(data["columns"], row, strict=True)) for row in data["rows"]}
    first, _, third, fourth, _, last = (items[identity] for identity in ids)
    # J, J_judge and people's score
    assert first["judged"] == ["3.30", "4.50", "–"]
    assert third["judged"] == ["–", "–", "–"]
    assert fourth["judged"] == ["3.10", "1.00", "4.00"]
    judged_flags = {"flagged", "unscored", "reviewed"}
    assert [[flag for flag in item["flags"] if flag in judged_flags] for item in (first, third, fourth, last)] == [
        ["flagged"],
        ["unscored"],
        ["flagged", "reviewed"],
        [],
    ]
    fives = "well paced 5 · true to persona 5 · grounded 5 · vivid 5 · keeps form 5"
    assert first["marks"] == f"a: {fives}\n{HOSTILE}: {fives.replace('5', '4')}"
    assert third["marks"].splitlines()[1] == f"unscored: {HOSTILE}: no reply {HOSTILE}"
    assert first["reasons"].splitlines()[:2] == [
        f"a, answer first: It deserves a 5. b, answer first: {HOSTILE}",  # a line break makes no second judge
        "a, reference first: So.",
    ]
    assert (last["judged"], last["marks"], last["reasons"]) == ([], "", "")


def test_without_judgements_judges_are_not_mentioned(full):
    page = full[0].read_text("utf-8")
    assert 'id="judged"' not in page
    assert "J_judge" not in page
    assert "<option>flagged" not in page


def test_a_run_without_a_judgement_yet(tmp_path):
    run = scored_run(tmp_path / "run", chosen_rows("ItineraryBasic", 2), ["Yes.", "No."])
    Panel(("a",)).write(tmp_path / "run")
    page = html_of(run).read_text("utf-8")
    assert cells_of(page, "judged") == [
        ["ItineraryBasic", *["-"] * 6, ""],
        ["ItineraryBasic", "2", "0", "2", "0", "0", "-", "-"],
    ]
    assert "unscored, 2: a: not judged yet" in page


def test_a_run_that_only_people_scored_has_a_j_where_they_did(tmp_path):
    folder = tmp_path / "run"
    run = scored_run(folder, chosen_rows("ItineraryBasic", 3), ["Yes.", "No.", "Well."], composite=0.5)
    reviews = Reviews.create(folder, review_items(folder, count=3), {"seed": 0})
    assert read_judged(folder) is None  # sampled, but nobody has marked
    for item, mark in zip(list(reviews.items)[:2], (4, 3), strict=True):
        for rater in ("Ana", "Ben"):
            reviews.save(item, rater, dict.fromkeys(CRITERIA, mark))
    page = html_of(run).read_text("utf-8")
    # J: 1.5 + 0.4 * 4 and 1.5 + 0.4 * 3, of two relationships
    assert cells_of(page, "judged") == [
        ["ItineraryBasic", "2.50", "-", "2.90", "58.00", "0.36 to 5.00", "3.98", ""],
        ["ItineraryBasic", "3", "2", "0", "0", "2", "-", "-"],
    ]
    assert "No judge scored this run" in page and "Reviewed by people" in page and "judge:none|" in page
    data = data_of(page)
    answers = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
    assert sorted((answer["judged"][0], answer["judged"][2], answer["marks"]) for answer in answers) == [
        ("2.70", "3.00", "people only"),
        ("3.10", "4.00", "people only"),
        ("–", "–", ""),
    ]


def test_a_config_of_one_relationship_has_no_interval_on_the_page(tmp_path):
    rows = [row for task, n in (("ItineraryBasic", 1), ("ItineraryMiddle", 2)) for row in chosen_rows(task, n)]
    run = scored_run(tmp_path / "run", rows, ["A day.", "08:00 tea", "Another."])
    text = " ".join(re.sub(r"<[^>]*>", " ", html_of(run).read_text("utf-8")).split())
    assert re.search(r"Itinerary Basic 1 \d+\.\d\d - ", text)
    assert re.search(r"Itinerary Middle 2 \d+\.\d\d \d+\.\d to \d+\.\d ", text)
    assert "nan" not in text


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=120_000)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, full):
    yield from tab_of(browser, full[0])


@pytest.fixture
def opened_judged(browser, judged):
    yield from tab_of(browser, judged[0])


def tab_of(browser, file):
    """The file opened on a phone, with what the page says to the console and asks for."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.messages, page.requests = [], []
    page.on("console", lambda message: page.messages.append(message.text))
    page.on("pageerror", lambda error: page.messages.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("#filter:not([hidden])")
    yield page
    page.close()


def test_it_opens_from_disk_quietly_and_fits_a_phone(opened, full):
    assert opened.evaluate("document.documentElement.scrollWidth") == 390
    assert opened.title() == f"a model {HOSTILE} + team/lora@1 on H2HTalk"
    assert opened.inner_text("h1") == f"a model {HOSTILE} + team/lora@1"
    assert opened.locator("nav a").count() == opened.locator("main > section").count() == 6
    assert (opened.messages, opened.requests) == ([], [full[0].as_uri()])


def test_the_filter_finds_by_config_flag_and_text(opened, full):
    _, scores, rows = full
    count = lambda: opened.inner_text("#filter output")  # noqa: E731
    assert opened.is_visible("#extremes")
    opened.select_option("[name=task]", "ItineraryMiddle")
    assert count() == "444 found"
    assert opened.is_hidden("#extremes")
    opened.select_option("[name=flag]", "format error")
    chosen = scores.items[(scores.items["task"] == "ItineraryMiddle") & scores.items["format_error"].notna()]
    assert count() == f"{len(chosen)} found"
    shown = opened.locator("#results .big")
    assert shown.count() == 25
    assert float(shown.first.inner_text()) == pytest.approx(100 * chosen["composite"].min(), abs=0.051)
    opened.click("#more")
    assert shown.count() == 50
    opened.select_option("[name=order]", "-1")
    assert float(shown.first.inner_text()) == pytest.approx(100 * chosen["composite"].max(), abs=0.051)
    opened.select_option("[name=task]", "")
    opened.select_option("[name=flag]", "")
    opened.fill("[name=text]", " qUOKKA")
    assert count() == "1 found"
    assert opened.inner_text("#results code") == rows[2]["id"]
    opened.fill("[name=text]", "")
    assert count() == "4,650 found"  # by S alone: the best answers of the whole run
    assert float(shown.first.inner_text()) == pytest.approx(100 * scores.items["composite"].max(), abs=0.051)
    opened.select_option("[name=order]", "")
    assert opened.is_visible("#extremes")
    assert opened.locator("#results .card").count() == 0
    assert opened.messages == []


def test_markup_in_a_found_answer_is_text_and_the_system_text_unfolds(opened, full):
    _, _, rows = full
    opened.fill("[name=text]", "document.title")
    assert opened.inner_text("#results .answer") == HOSTILE
    opened.click("#results .system summary")
    shown = opened.locator("#results .system p")
    shown.filter(has_text="Secure base").wait_for()
    assert shown.evaluate("element => element.textContent") == rows[0]["messages"][0]["content"]
    assert opened.title().startswith("a model")
    assert (opened.messages, len(opened.requests)) == ([], 1)


def test_the_filter_answers_at_once_over_a_full_run(opened):
    slowest = opened.evaluate(
        """() => {
          const text = document.querySelector("[name=text]");
          const slowest = () => Math.max(..."the morning".split("").map((_, place, letters) => {
            text.value = letters.slice(0, place + 1).join("");
            const start = performance.now();
            text.dispatchEvent(new Event("input", { bubbles: true }));
            document.body.offsetHeight;
            return performance.now() - start;
          }));
          return Math.min(slowest(), slowest(), slowest()); // a machine that stalled once is no slow filter
        }"""
    )
    print(f"slowest of eleven filterings: {slowest:.0f} ms")
    assert slowest < 400  # a person's patience with typing, on a busy machine; some 40 ms where it is idle


def test_the_filter_finds_what_is_flagged_unscored_and_reviewed(opened_judged, judged):
    page, ids = opened_judged, judged[1]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    found = {}
    for flag in ("flagged", "unscored", "reviewed"):
        page.select_option("[name=flag]", flag)
        found[flag] = page.locator("#results header code").all_inner_texts()
    assert found == {"flagged": [ids[0], ids[3]], "unscored": [ids[2]], "reviewed": [ids[3]]}
    said = page.inner_text("#results .judgement")
    assert "J_judge\n1.00\npeople\n4.00" in said
    assert f"{HOSTILE}: well paced 2" in said
    assert f"a, answer first: It deserves a 0. b, answer first: {HOSTILE}" in said
    page.select_option("[name=flag]", "")
    page.select_option("[name=task]", "ItineraryResponse")
    assert page.locator("#results .card").count() == 1
    assert page.is_hidden("#results .judgement")
    assert page.locator("nav a").count() == page.locator("main > section").count() == 8
    assert page.title().startswith("a model")
    assert (page.messages, len(page.requests)) == ([], 1)
