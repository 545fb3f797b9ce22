"""The choice of answers by config and J, and what their human scores say about all judged answers."""

import json

import numpy as np
import pandas as pd
import pytest
from helpers.commands import h2htalk
from helpers.review_parts import judged_run

from h2htalk_datasets import load
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.reports.judged_tables import reviewed as reviewed_section
from h2htalk_metric.review import Reviews, agreement
from h2htalk_metric.review.estimate import population_mean, population_share, review_estimate
from h2htalk_metric.review.sampling import sample_by_j, start_review

JUDGED = {"ItineraryBasic": 207, "ItineraryMiddle": 444, "ItineraryAdvanced": 143}
REVIEWS = 150


def rows_of(values, tau=3.5, task="ItineraryBasic"):
    """One row per J."""
    rows = [{"id": name, "task": task, "j_with_judge": j, "flagged": j < tau} for name, j in values.items()]
    return pd.DataFrame(rows)


def groups_of(chosen, group):
    return {record_id for record_id, choice in chosen.items() if choice.group == group}


def test_few_flagged_answers_are_all_chosen_and_controls_at_random():
    values = {f"low{n}": 3.49 for n in range(3)} | {f"high{n}": 3.5 + n / 20 for n in range(30)}
    chosen = sample_by_j(rows_of(values), most=40)
    assert groups_of(chosen, "flagged") == {"low0", "low1", "low2"}
    assert {chosen[f"low{n}"].probability for n in range(3)} == {1.0}
    controls = groups_of(chosen, "control")
    assert len(controls) == 20 and all(name.startswith("high") for name in controls)
    assert len(groups_of(sample_by_j(rows_of(values), most=10), "control")) == 5
    assert sum(1 / chosen[name].probability for name in controls) == pytest.approx(30)
    assert chosen == sample_by_j(rows_of(dict(reversed(values.items()))), most=40)
    assert chosen != sample_by_j(rows_of(values), most=40, seed=1)
    assert len(sample_by_j(rows_of(values))) == 33
    assert len(sample_by_j(rows_of(values), controls=7)) == 10
    assert len(sample_by_j(rows_of(values), controls=99)) == 33


def population(low_share):
    """The judged records of the corpus with simulated J: `low_share` of them below 3.5, lower in some relationships."""
    random = np.random.default_rng(3)
    rows = pd.DataFrame(
        [(record["id"], task, record["relationship"]) for task in JUDGED for record in load(task)],
        columns=["id", "task", "relationship"],
    )
    effects = {name: random.normal(0, 0.15) for name in sorted(set(rows["relationship"]))}
    noise = random.normal(0, 0.5, len(rows))
    j = rows["relationship"].map(effects) + rows["task"].map({task: n / 4 for n, task in enumerate(JUDGED)}) + noise
    rows["j_with_judge"] = np.clip(j - np.quantile(j, low_share) + 3.49, 0, 5)
    rows["flagged"] = rows["j_with_judge"] < 3.5
    rows["human"] = np.clip(1.2 * rows["j_with_judge"] - 1 + random.normal(0, 0.6, len(rows)), 0, 5)
    return rows


def test_strata_are_configs_and_terciles_of_j():
    rows = population(1.0)  # all flagged
    chosen = sample_by_j(rows)
    assert rows["flagged"].all() and len(chosen) == 100 and groups_of(chosen, "flagged") == set(chosen)
    counts = rows[rows["id"].isin(chosen)].groupby("task").size().to_dict()
    assert all(abs(counts[task] - 100 * size / 794) < 2 for task, size in JUDGED.items())
    by_task = rows.groupby("task")["j_with_judge"]
    third = (3 * (by_task.rank(method="first") - 1) // by_task.transform("size")).astype(int)
    sizes = rows.assign(third=third, chosen=rows["id"].isin(chosen)).groupby(["task", "third"])["chosen"]
    assert (abs(sizes.sum() - 100 * sizes.size() / 794) < 1).all()
    for record_id, row in rows.set_index("id").assign(third=third.to_numpy()).loc[list(chosen)].iterrows():
        in_stratum = (rows["task"] == row["task"]) & (third == row["third"])
        share = rows.loc[in_stratum, "id"].isin(chosen).mean()
        assert chosen[record_id].probability == pytest.approx(share)


@pytest.mark.parametrize("low_share", [1.0, 0.4])
@pytest.mark.parametrize("most", [100, 12])
def test_inclusion_probabilities_sum_to_the_population(low_share, most):
    chosen = sample_by_j(population(low_share), most=most)
    assert len(chosen) <= most
    assert sum(1 / choice.probability for choice in chosen.values()) == pytest.approx(794)
    assert bool(groups_of(chosen, "control")) is (low_share < 1)


@pytest.mark.parametrize(("low_share", "most", "weights_matter"), [(1.0, 100, False), (0.1, 100, True)])
def test_estimates_are_unbiased_and_their_intervals_cover(low_share, most, weights_matter):
    """Many reviews of one simulated run: the truth is known for all 794 answers."""
    rows = population(low_share)
    human, clusters = rows.set_index("id")["human"], rows.set_index("id")["relationship"]
    truth, truth_below = human.mean(), (human < 3).mean()
    estimates, shares, plain, covered, shares_covered = [], [], [], 0, 0
    for seed in range(REVIEWS):
        chosen = sample_by_j(rows, most=most, seed=seed)
        values, labels = human[list(chosen)], list(clusters[list(chosen)])
        probabilities = [choice.probability for choice in chosen.values()]
        mean = population_mean(values.to_numpy(), probabilities, labels, bounds=(0, 5))
        below = population_share((values < 3).to_numpy(dtype=float), probabilities, labels)
        estimates.append(mean.value)
        shares.append(below.value)
        plain.append(values.mean())
        covered += mean.low <= truth <= mean.high
        shares_covered += below.low <= truth_below <= below.high
    for values, true in ((estimates, truth), (shares, truth_below)):
        assert abs(np.mean(values) - true) < 3.5 * np.std(values) / np.sqrt(REVIEWS)
    # An interval for other relationships too is wider than one for this run alone, so it may cover more than 95%.
    bias, coverage = np.mean(plain) - truth, (covered / REVIEWS, shares_covered / REVIEWS)
    print(f"covered {coverage}; without weights the mean is off by {bias:+.3f}")
    assert min(coverage) >= 0.93
    assert (abs(bias) > 0.1) == weights_matter


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(H2HTalkError, match="no judged answer is flagged; name --controls N"):
        sample_by_j(rows_of({"high": 4.0}))
    with pytest.raises(H2HTalkError, match="--controls 8 is more than --most 7"):
        sample_by_j(rows_of({"high": 4.0}), most=7, controls=8)


# A run


@pytest.fixture
def judged(tmp_path):
    """S = 0.5; J 1.9, 2.3 and 3.1 (flagged), 3.5 and 3.5, and one answer without J."""
    return judged_run(tmp_path / "run")


def rate_all(reviews, levels):
    for item, level in zip(reviews.items.values(), levels, strict=True):
        for rater in ("Ana", "Ben"):
            reviews.save(item.id, rater, {criterion.name: level for criterion in item.rubric.criteria})


def test_an_estimate_by_hand(judged):
    reviews = start_review(judged, most=4, controls=1)  # three flagged answers, and one of the two others
    assert [item.probability for item in reviews.items.values()] == [1.0, 1.0, 1.0, 0.5]
    assert reviews.settings["population"] == 5
    before = review_estimate(judged)
    assert before == (5, 4, 0, None, None, "no item is resolved yet")
    rate_all(reviews, [1, 2, 4, 5])
    estimate = review_estimate(judged)
    assert (estimate.population, estimate.sampled, estimate.resolved) == (5, 4, 4)
    assert estimate.human_score.value == pytest.approx((1 + 2 + 4 + 2 * 5) / 5)
    assert estimate.below_tau.value == pytest.approx(3 / 5)  # J = 1.5 + 0.4 * score: 1.9, 2.3, 3.1 and 3.5
    text = reviewed_section(agreement(judged), estimate).blocks[0]
    assert text.startswith("Estimates for all 5 judged answers from 4 resolved items: mean human score 3.40 (")
    exported = h2htalk("review", "export", judged)
    assert exported.returncode == 0, exported.stderr
    assert "Estimates for all 5 judged answers" in exported.stdout
    rows = pd.read_csv(judged / "reviews.csv")
    assert rows["inclusion_probability"].tolist() == [1, 1, 1, 1, 1, 1, 0.5, 0.5]


def test_without_controls_there_is_no_estimate(judged):
    rate_all(start_review(judged, controls=0), [1, 2, 4])
    assert review_estimate(judged).unavailable == (
        "answers that are not flagged had no chance to be chosen (--controls 0)"
    )


def test_a_random_sample_has_an_estimate_too(judged):
    rate_all(start_review(judged, sample=3), [1, 2, 3])
    estimate = review_estimate(judged)
    assert (estimate.population, estimate.human_score.value) == (6, pytest.approx(2.0))


def test_a_review_of_an_earlier_version_stays_valid_without_an_estimate(judged):
    reviews = start_review(judged)
    rate_all(reviews, [1, 2, 4, 5, 5])
    header, *lines = reviews.file.read_text("utf-8").splitlines()
    header = json.loads(header) | {"format": 1, "settings": {"controls": None, "sample": None, "seed": 0}}
    for item in header["items"]:
        del item["probability"]
    reviews.file.write_text("\n".join([json.dumps(header), *lines]) + "\n", "utf-8")
    assert len(Reviews(judged).latest()) == 5
    estimate = review_estimate(judged)
    assert estimate.resolved == 5 and "earlier version" in estimate.unavailable
    exported = h2htalk("review", "export", judged)
    assert exported.returncode == 0, exported.stderr
    assert "There is no estimate for all judged answers: the review was started by an earlier" in exported.stdout
    assert set(pd.read_csv(judged / "reviews.csv")["inclusion_probability"].isna()) == {True}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sample", 3, "--most", 2), "omit them here, or omit --sample"),
        (("--most", 2, "--controls", 3), "more than --most 2"),
        (("--most", 0), "--most"),
    ],
)
def test_options_that_exclude_each_other_are_refused(judged, options, message):
    refused = h2htalk("review", judged, *options)
    assert refused.returncode == 2 and message in refused.stderr and not Reviews.exist(judged)
