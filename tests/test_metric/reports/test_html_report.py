"""`report.html`: what it says, that nothing in it comes alive, and that it works in a browser without a network."""

import base64
import gzip
import json
import random
import re
import shutil
from html.parser import HTMLParser

import pytest
from helpers.judge_scripts import CRITERIA
from helpers.report_runs import HOSTILE, scored_run

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_datasets.prompts import SAP
from h2htalk_metric.cli.probe import _keep
from h2htalk_metric.judge.items import items_of as judged_items
from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.judge.marking import item_key
from h2htalk_metric.judge.run_judgements import Panel, append_judgement
from h2htalk_metric.reports.html import html
from h2htalk_metric.reports.html.figures import ceiling, radar, spread
from h2htalk_metric.reports.html.items import extremes, packed
from h2htalk_metric.review import Reviews, human_scores
from h2htalk_metric.review.drawing import items_of_run
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.intervals import Interval

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """All 4,650 records, answered by the words of others' references."""
    rows, draw = chosen_rows(), random.Random(0)
    vocabulary = [word for row in rows for word in row["reference"].split()]
    answers = [" ".join(draw.choices(vocabulary, k=len(row["reference"].split()))) for row in rows]
    answers[0], answers[1], answers[2] = HOSTILE, "", "A lone surrogate \ud800, a ]]> and a \x00 go by. Quokka."
    folder = tmp_path_factory.mktemp("report") / "run"
    scores = scored_run(folder, rows, answers)
    file = folder / "report.html"
    file.write_text(html(scores, folder), "utf-8")
    return file, scores, rows


def data_of(page):
    """What the page's script unpacks."""
    packed_items = re.search(r'<script id="data"[^>]*>([A-Za-z0-9+/=]*)</script>', page)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed_items)))


class Elements(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_nothing_from_outside_comes_alive_and_nothing_is_fetched(full):
    page = full[0].read_text("utf-8")
    elements = Elements(page).found
    assert [tag for tag, _ in elements].count("script") == 2  # the data and the page's own
    assert "img" not in [tag for tag, _ in elements]
    assert all(name not in attributes for _, attributes in elements for name in ("src", "srcset", "onerror"))
    assert {a["href"][0] for _, a in elements if "href" in a} <= {"#", "d"}  # within the page, and the empty icon
    assert "&lt;/script&gt;&lt;script&gt;" in page


def test_a_full_run_stays_small(full):
    assert full[0].stat().st_size < 2.2e6


def test_the_data_hold_every_item_with_what_the_model_was_sent(full):
    data, (_, scores, rows) = data_of(full[0].read_text("utf-8")), full
    items = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
    assert [item["id"] for item in items] == [row["id"] for row in rows]
    for place in (0, 1, 2000, 4649):
        item, row = items[place], rows[place]
        assert "\n\n".join(data["paragraphs"][number] for number in item["system"]) == row["messages"][0]["content"]
        assert item["prompt"] == row["messages"][1]["content"]
        assert item["reference"] == row["reference"]
        assert float(item["S"]) == pytest.approx(100 * scores.items["composite"][place], abs=0.051)
        assert float(item["SS"]) == pytest.approx(100 * scores.items["ss"][place], abs=0.051)
    assert items[0]["flags"] == ["out of form", "cut off"]
    assert items[0]["fault"] == "90 words, the limit is 40"
    assert items[1]["flags"] == ["empty"]
    assert items[2]["answer"] == "A lone surrogate \ufffd, a ]]> and a \x00 go by. Quokka."


def test_a_removed_principle_is_not_shown_as_sent(tmp_path):
    rows = chosen_rows("ItineraryResponse", 2)
    kept = [name for name in SAP if name != "autonomy"]
    data = data_of(html(scored_run(tmp_path / "run", rows, ["Yes.", "No."], kept), tmp_path / "run"))
    assert not any("Their life, their choice" in part for part in data["paragraphs"])
    assert any("Secure base" in part for part in data["paragraphs"])


def test_few_configs_make_no_radar_and_no_overall(tmp_path):
    rows = chosen_rows("ItineraryResponse,DialogueBase", 2)
    page = html(scored_run(tmp_path / "run", rows, ["Yes.", "", "No.", ""]), tmp_path / "run")
    assert 'class="radar"' not in page
    assert "<dt>Overall S</dt><dd>–</dd>" in page


def test_scores_of_other_records_are_refused(tmp_path):
    scores = scored_run(tmp_path / "run", chosen_rows("ItineraryResponse", 3), ["a", "b", "c"])
    swapped = RunScores(scores.items.iloc[[1, 0, 2]], scores.signature, scores.manifest)
    with pytest.raises(H2HTalkError, match="scores of other records"):
        html(swapped, tmp_path / "run")


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
def test_extremes_overlap_nowhere_and_rank_as_numbers(figures, lowest, highest):
    items = [{"S": f"{figure:.1f}", "flags": []} for figure in figures] + [{"S": "0.0", "flags": ["empty"]}]
    low, high = extremes(items)
    assert [float(item["S"]) for item in low] == lowest
    assert [float(item["S"]) for item in high] == highest


def test_packing_is_the_same_each_time():
    items = [
        {"id": "a", "system": "one\n\ntwo", "words": (1, 2)},
        {"id": "b", "system": "one\n\nthree", "words": (1, 2)},
    ]
    assert packed(items) == packed(items)
    assert json.loads(gzip.decompress(base64.b64decode(packed(items)))) == {
        "columns": ["id", "system"],
        "rows": [["a", [0, 1]], ["b", [0, 2]]],
        "paragraphs": ["one", "two", "three"],
    }


def test_axes_end_at_round_figures():
    ends = {3: 20, 20: 20, 21: 40, 69.4: 80, 80.1: 100, 138: 160, 161: 200, 1700: 2000}
    assert {value: ceiling([0, value]) for value in ends} == ends


def test_spread_is_percentiles():
    assert spread(range(101)) == (5, 25, 50, 75, 95)


def test_the_radar_puts_values_on_their_axes():
    intervals = {("Dialogue", "Base"): Interval(40, 20, 80), ("Itinerary", "Basic"): Interval(0, 0, 0)}
    assert radar(intervals) is None
    intervals |= {("Itinerary", "Middle"): Interval(80, 80, 80), ("Recollection", "Synthesis"): Interval(20, 0, 40)}
    drawn = radar(intervals)
    # Four axes from the centre (260, 215): up, right, down, left, 150 long for 80.
    assert [axis.end for axis in drawn.axes] == [(260, 65), (410, 215), (260, 365), (110, 215)]
    assert drawn.value == [(260, 140), (260, 215), (260, 365), (222.5, 215)]
    assert (drawn.low[0], drawn.high[0]) == ((260, 177.5), (260, 65))
    assert list(drawn.rings) == [20, 40, 60, 80]


# A judged run: two judges, of which one failed once, and one item that people marked


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Three ItineraryBasic, two ItineraryMiddle, one that is not judged; S = 0.5, so J = 1.5 + 0.4 J_judge.

    The marks of judge a, then of judge HOSTILE (None where it failed): 5 4, 5 5, 2 None | 0 2, 5 5.
    """
    folder = tmp_path_factory.mktemp("judged") / "run"
    rows = [row for task, n in (("ItineraryBasic", 3), ("ItineraryMiddle", 2)) for row in chosen_rows(task, n)]
    rows += chosen_rows("ItineraryResponse", 1)
    scores = scored_run(folder, rows, [f"Answer {place}." for place in range(6)])
    scores.items["composite"] = 0.5
    scores.items.to_parquet(folder / "scores.parquet")
    (folder / "score.json").write_text(json.dumps({"signature": scores.signature}))
    Panel(("a", HOSTILE)).write(folder)
    items = judged_items(folder)
    for judge, marks in (("a", [5, 5, 2, 0, 5]), (HOSTILE, [4, 5, None, 2, 5])):
        for item, mark in zip(items, marks, strict=True):
            line = {"id": item.id, "judge": judge, "key": item_key(item, judge, 0, 0), "rubric": item.rubric.name}
            line |= {"unscored": f"no reply\n{HOSTILE}"} if mark is None else verdict_line(mark)
            append_judgement(folder, line)
    reviews = Reviews.create(folder, items_of_run(folder), {"seed": 0})
    for rater in ("Ana", "Ben"):
        reviews.save(items[3].id, rater, dict.fromkeys(CRITERIA, 4))
    file = folder / "report.html"
    file.write_text(html(scores, folder, JudgedRun.read(folder, scores, human_scores(folder))), "utf-8")
    return file, [row["id"] for row in rows]


def verdict_line(mark):
    """What a judgement says, the same mark for every criterion, a gap of 0.5 for a 4 or 5 and none else."""
    why = {"answer_first": [f"It deserves a {mark}.\nb, answer first: {HOSTILE}"], "reference_first": ["So."]}
    gap = 0.5 if mark > 3 else 0.0
    return {"score": float(mark), "verdict": dict.fromkeys(CRITERIA, float(mark)), "position_gap": gap, "why": why}


def cells_of(page, section):
    """The texts of a section's rows of configs, cell by cell, figures aside."""
    body = re.search(rf'<section id="{section}".*?</section>', page, re.DOTALL)[0]
    rows = re.findall(
        r'<tr class="Itinerary">(.*?)</tr>', re.sub(r"<svg.*?</svg>", "", body, flags=re.DOTALL), re.DOTALL
    )
    return [["".join(re.split(r"<[^>]*>", cell)).strip() for cell in re.split(r"</t[hd]>", row)[:-1]] for row in rows]


def test_a_judged_run_by_hand(judged):
    page = judged[0].read_text("utf-8")
    # J: 3.3 and 3.5, the third unscored | 1.9 by the judge, 3.1 by people's 4, and 3.5
    basic, middle, basic_counts, middle_counts = cells_of(page, "judged")
    assert basic == ["ItineraryBasic", "2.50", "4.75", "3.40", "68.00", "3.30 to 3.50", ""]
    assert middle == ["ItineraryMiddle", "2.50", "3.00", "3.30", "66.00", "3.10 to 3.50", ""]
    assert basic_counts == ["ItineraryBasic", "3", "2", "1", "1", "0", "0.50", "0.50"]
    assert middle_counts == ["ItineraryMiddle", "2", "2", "0", "1", "1", "0.25", "1.00"]
    assert "J = 0.6 S5 + 0.4 J_judge" in page
    assert "Agreement of the panel (Krippendorff&#39;s alpha, interval): scores 0." in page
    assert "unscored, 1: &lt;/script&gt;" in page
    assert '<td>flagged</td><td class="number">2</td><td class="number">1</td>' in page
    assert f"judge:a,{HOSTILE}".replace("<", "&lt;").replace(">", "&gt;").replace('"', "&#34;") in page
    assert [tag for tag, _ in Elements(page).found].count("script") == 2


def test_judged_items_say_who_gave_what_and_why(judged):
    file, ids = judged
    data = data_of(file.read_text("utf-8"))
    items = {row[0]: dict(zip(data["columns"], row, strict=True)) for row in data["rows"]}
    first, _, third, fourth, _, last = (items[identity] for identity in ids)
    assert [first[name] for name in ("J", "J_judge", "people")] == ["3.30", "4.50", "–"]
    assert [third[name] for name in ("J", "J_judge", "people")] == ["–", "–", "–"]
    assert [fourth[name] for name in ("J", "J_judge", "people")] == ["3.10", "1.00", "4.00"]
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
    assert first["why"].splitlines()[:2] == [
        f"a, answer first: It deserves a 5. b, answer first: {HOSTILE}",  # a line break makes no second judge
        "a, reference first: So.",
    ]
    assert (last["J"], last["marks"], last["why"]) == ("", "", "")


def test_a_section_put_in_later_leaves_the_judged_one(judged, tmp_path):
    folder = shutil.copytree(judged[0].parent, tmp_path / "run")
    (folder / "report.html").unlink()
    _keep(folder, "results", {}, "A table.")
    assert cells_of((folder / "report.html").read_text("utf-8"), "judged")[0][3] == "3.40"


def test_without_judgements_nothing_is_said_of_judges(full):
    page = full[0].read_text("utf-8")
    assert 'id="judged"' not in page
    assert "J_judge" not in page
    assert "<option>flagged" not in page
    assert not {"J", "marks", "why"} & set(data_of(page)["columns"])


def test_a_run_of_which_nothing_is_judged_yet(tmp_path):
    scores = scored_run(tmp_path / "run", chosen_rows("ItineraryBasic", 2), ["Yes.", "No."])
    Panel(("a",)).write(tmp_path / "run")
    page = html(scores, tmp_path / "run", JudgedRun.read(tmp_path / "run", scores, {}))
    assert cells_of(page, "judged") == [
        ["ItineraryBasic", *["–"] * 5, ""],
        ["ItineraryBasic", "2", "0", "2", "0", "0", "–", "–"],
    ]
    assert "unscored, 2: a: not asked yet" in page


def test_a_run_that_only_people_marked_has_a_j_where_they_did(tmp_path):
    folder = tmp_path / "run"
    scores = scored_run(folder, chosen_rows("ItineraryBasic", 3), ["Yes.", "No.", "Well."])
    scores.items["composite"] = 0.5
    reviews = Reviews.create(folder, items_of_run(folder, count=3), {"seed": 0})
    assert JudgedRun.read(folder, scores, human_scores(folder)) is None  # drawn, but nobody has marked
    for item, mark in zip(list(reviews.items)[:2], (4, 3), strict=True):
        for rater in ("Ana", "Ben"):
            reviews.save(item, rater, dict.fromkeys(CRITERIA, mark))
    judged = JudgedRun.read(folder, scores, human_scores(folder))
    page = html(scores, folder, judged)
    # J: 1.5 + 0.4 * 4 and 1.5 + 0.4 * 3
    assert cells_of(page, "judged") == [
        ["ItineraryBasic", "2.50", "–", "2.90", "58.00", "2.70 to 3.10", ""],
        ["ItineraryBasic", "3", "2", "0", "0", "2", "–", "–"],
    ]
    assert "No judge was asked" in page and "Reviewed by people" in page and "judge:none|" in page
    data = data_of(page)
    items = {row[0]: dict(zip(data["columns"], row, strict=True)) for row in data["rows"]}
    assert sorted((item["J"], item["people"], item["marks"]) for item in items.values()) == [
        ("2.70", "3.00", "people, and no judge"),
        ("3.10", "4.00", "people, and no judge"),
        ("–", "–", ""),
    ]


def test_a_config_of_one_item_has_no_interval_on_the_page(tmp_path):
    rows = [row for task, n in (("ItineraryBasic", 1), ("ItineraryMiddle", 2)) for row in chosen_rows(task, n)]
    scores = scored_run(tmp_path / "run", rows, ["A day.", "08:00 tea", "Another."])
    told = " ".join(re.sub(r"<[^>]*>", " ", html(scores, tmp_path / "run")).split())
    assert re.search(r"Itinerary Basic 1 \d+\.\d\d – ", told)
    assert re.search(r"Itinerary Middle 2 \d+\.\d\d \d+\.\d to \d+\.\d ", told)
    assert "nan" not in told


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
    page.noise, page.asked = [], []
    page.on("console", lambda message: page.noise.append(message.text))
    page.on("pageerror", lambda error: page.noise.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("#filter:not([hidden])")
    yield page
    page.close()


def test_it_opens_from_disk_quietly_and_fits_a_phone(opened, full):
    assert opened.evaluate("document.documentElement.scrollWidth") == 390
    assert opened.title() == f"a model {HOSTILE} + team/lora@1 on H2HTalk"
    assert opened.inner_text("h1") == f"a model {HOSTILE} + team/lora@1"
    assert opened.locator("nav a").count() == opened.locator("main > section").count() == 6
    assert (opened.noise, opened.asked) == ([], [full[0].as_uri()])


def test_the_filter_finds_by_config_flag_and_text(opened, full):
    _, scores, rows = full
    count = lambda: opened.inner_text("#filter output")  # noqa: E731
    assert opened.is_visible("#extremes")
    opened.select_option("[name=task]", "ItineraryMiddle")
    assert count() == "444 found"
    assert opened.is_hidden("#extremes")
    opened.select_option("[name=flag]", "out of form")
    chosen = scores.items[(scores.items["task"] == "ItineraryMiddle") & scores.items["format_error"].notna()]
    assert count() == f"{len(chosen)} found"
    shown = opened.locator("#found .big")
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
    assert opened.inner_text("#found code") == rows[2]["id"]
    opened.fill("[name=text]", "")
    assert count() == "4,650 found"  # by S alone: the best answers of the whole run
    assert float(shown.first.inner_text()) == pytest.approx(100 * scores.items["composite"].max(), abs=0.051)
    opened.select_option("[name=order]", "")
    assert opened.is_visible("#extremes")
    assert opened.locator("#found .card").count() == 0
    assert opened.noise == []


def test_markup_in_a_found_answer_is_text_and_the_system_text_unfolds(opened, full):
    _, _, rows = full
    opened.fill("[name=text]", "document.title")
    assert opened.inner_text("#found .answer") == HOSTILE
    opened.click("#found .system summary")
    shown = opened.locator("#found .system p")
    shown.filter(has_text="Secure base").wait_for()
    assert shown.evaluate("element => element.textContent") == rows[0]["messages"][0]["content"]
    assert opened.title().startswith("a model")
    assert (opened.noise, len(opened.asked)) == ([], 1)


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
        found[flag] = page.locator("#found header code").all_inner_texts()
    assert found == {"flagged": [ids[0], ids[3]], "unscored": [ids[2]], "reviewed": [ids[3]]}
    said = page.inner_text("#found .judged")
    assert "J_judge\n1.00\npeople\n4.00" in said
    assert f"{HOSTILE}: well paced 2" in said
    assert f"a, answer first: It deserves a 0. b, answer first: {HOSTILE}" in said
    page.select_option("[name=flag]", "")
    page.select_option("[name=task]", "ItineraryResponse")
    assert page.locator("#found .card").count() == 1
    assert page.is_hidden("#found .judged")
    assert page.locator("nav a").count() == page.locator("main > section").count() == 7
    assert page.title().startswith("a model")
    assert (page.noise, len(page.asked)) == ([], 1)
