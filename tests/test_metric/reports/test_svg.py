"""Plots and the radar: their geometry, and names from outside as text."""

import re

import pytest

from h2htalk_metric.reports.svg import MAX_RADAR_LINES, axis_end, distribution, radar, whisker
from h2htalk_metric.stats.intervals import Interval

NAN = float("nan")
FOUR_AXES = {
    ("Dialogue", "Base"): Interval(40, 20, 80),
    ("Itinerary", "Basic"): Interval(0, 0, 0),
    ("Itinerary", "Middle"): Interval(80, 80, 80),
    ("Recollection", "Synthesis"): Interval(20, 0, 40),
}


def without_intervals(axes):
    return {axis: Interval(interval.value, NAN, NAN) for axis, interval in axes.items()}


def test_axes_end_at_round_numbers():
    ends = {3: 20, 20: 20, 21: 40, 69.4: 80, 80.1: 100, 138: 160, 161: 200, 1700: 2000}
    assert {value: axis_end([0, value, NAN]) for value in ends} == ends


def test_a_distribution_is_five_percentiles():
    assert distribution(range(101)) == (5, 25, 50, 75, 95)


def test_the_radar_puts_values_on_their_axes():
    figure = radar({"S": FOUR_AXES}, "Four")
    # Four axes from the centre (260, 215): up, right, down, left, 150 long for 80.
    assert re.findall(r'<line class="grid" .* x2="([\d.]+)" y2="([\d.]+)"', figure) == [
        ("260.0", "65.0"),
        ("410.0", "215.0"),
        ("260.0", "365.0"),
        ("110.0", "215.0"),
    ]
    assert '<polygon class="outline" points="260.0,140.0 260.0,215.0 260.0,365.0 222.5,215.0"/>' in figure
    band = re.search(r'<path class="band".* d="M(\S+) .*Z M(\S+) ', figure)
    assert band.groups() == ("260.0,65.0", "260.0,177.5")
    assert re.findall(r'class="scale".*>(\d+)<', figure) == ["20", "40", "60", "80"]
    assert "<title>Dialogue Base 40.00</title>" in figure


def test_fewer_than_three_axes_make_no_radar():
    assert radar({"S": dict(list(FOUR_AXES.items())[:2])}, "Two") is None


def test_undefined_intervals_make_no_band():
    assert "band" not in radar({"S": without_intervals(FOUR_AXES)}, "Four")
    assert 'class="range"' not in whisker(Interval(40, NAN, NAN), 80)


def test_several_lines_have_a_legend_and_a_line_leaves_out_what_it_lacks():
    partial = without_intervals(dict(list(FOUR_AXES.items())[:3]))
    figure = radar({"<b>one</b>": without_intervals(FOUR_AXES), "two": partial}, "Compared")
    assert figure.count('fill-opacity="0.06"') == figure.count('fill-opacity="0"') == 1
    assert re.findall(r'class="name".*>(.*)</text>', figure) == ["&lt;b&gt;one&lt;/b&gt;", "two"]
    assert "two: Itinerary Middle 80.00" in figure and "two: Recollection" not in figure


def test_more_lines_than_can_be_told_apart_are_left_out():
    figure = radar({str(place): without_intervals(FOUR_AXES) for place in range(MAX_RADAR_LINES + 2)}, "Many")
    assert figure.count('class="name"') == MAX_RADAR_LINES


@pytest.mark.parametrize("limit", [None, 90])
def test_a_limit_beyond_the_axis_is_not_drawn(limit):
    assert "limit" not in whisker(Interval(40, 20, 60), 80, limit)
    assert 'class="limit" x1="75.00%"' in whisker(Interval(40, 20, 60), 80, 60)
