"""Which share of the judged answers is flagged, and why: said where people meet the number."""

import pytest
from helpers.commands import h2htalk
from helpers.review_parts import judged_run

from h2htalk_metric.judge.flags import certain_flags, flag_summary, needed_composite, why_flagged
from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.judge.panel_scores import composites_of, panel_scores
from h2htalk_metric.reports.judged_tables import judged as judged_section
from h2htalk_metric.runs.run import Run


@pytest.mark.parametrize(
    ("alpha", "tau", "needed", "why"),
    [
        (0.6, 3.5, 0.5, "J reaches 3.5 only if S is at least 0.50 even with a perfect judge"),  # (3.5 - 2) / 3
        (0.5, 3.0, 0.2, "J reaches 3 only if S is at least 0.20 even with a perfect judge"),  # (3 - 2.5) / 2.5
        (0.9, 4.0, 3.5 / 4.5, "J reaches 4 only if S is at least 0.78 even with a perfect judge"),
        (0.0, 3.5, 0.0, "J reaches 3.5 at any S if the judge gives 5"),
    ],
)
def test_the_s_that_j_needs(alpha, tau, needed, why):
    assert needed_composite(alpha, tau) == pytest.approx(needed)
    assert why_flagged(Panel((), alpha=alpha, tau=tau)) == why


@pytest.fixture
def judged(tmp_path):
    """S = 0.5 throughout, scores 1, 2, 4, 5, 5 and a failure: J is 1.9, 2.3, 3.1, 3.5, 3.5."""
    return judged_run(tmp_path / "run")


def test_the_summary_counts_flags_and_says_why(judged):
    line = flag_summary(panel_scores(judged), Panel.read(judged))
    assert line == (
        "3 of 5 judged answers are flagged: J reaches 3.5 only if S is at least 0.50 even with a perfect judge; "
        "the highest S here is 0.50."
    )
    assert flag_summary(panel_scores(judged).iloc[5:], Panel(())).startswith("No judged answer has a J yet: J reaches")
    assert certain_flags(composites_of(Run(judged)), Panel((), tau=3.6)).startswith("6 of 6 answers will be flagged")
    assert certain_flags(composites_of(Run(judged)), Panel(())).startswith("0 of 6 answers will be flagged")


def test_judge_and_report_say_it_first(judged):
    assert judged_section(read_judged(judged)).blocks[0] == flag_summary(panel_scores(judged), Panel.read(judged))
    dry = h2htalk("judge", judged, "--judge", "m", "--base-url", "http://127.0.0.1:9/v1", "--tau", "4", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.startswith("6 of 6 answers will be flagged whatever the judge says: J reaches 4 only if S is at")
