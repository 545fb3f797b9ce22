"""Tables of the scores by need, difficulty, length of the conversation and emotion."""

__all__ = ["difficulty", "effects_table"]

from collections.abc import Mapping, Sequence

from h2htalk_metric.judge.judged_slices import JUDGED_MEASURES, judged_slices
from h2htalk_metric.reports.table import (
    DETECTABLE,
    DETECTABLE_PAIRED,
    Column,
    Row,
    Section,
    Table,
    ends,
    numbers,
    shown,
)
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.runs.slices import FACTORS, NeedEffects, Slice, need_effects, slices
from h2htalk_metric.stats.intervals import Interval

_SHORT = {"j": "J", "judge_score": "score"}  # of the measures, as a column's head
_FEW = (
    "Scores are skewed, so in simulation intervals of levels with fewer than about 60 records cover 92 to 94% instead "
    "of 95%."
)


def difficulty(run: Run) -> Section | None:
    """S, J and the judges' scores by what makes a record hard; None for runs without these columns.

    The effect of an unsaid need is that on S.
    """
    run_scores = read_scores(run)
    parts = {factor: levels for factor in FACTORS if (levels := slices(run_scores, factor))}
    if not parts:
        return None
    tables = [_levels_table("S by level", "S", parts, ".1f")]
    for measure, of_measure in judged_slices(run).items():
        title = f"{JUDGED_MEASURES[measure]} by level, 0 to 5"
        tables += [_levels_table(title, _SHORT[measure], of_measure, ".2f")] if of_measure else []
    effects = need_effects(run_scores)
    effects_tables = [effects_table("Unsaid minus explicit needs, S times 100", effects)] if effects else []
    intro = (
        "S times 100 by need (is it said openly?), difficulty (1 to 3), turns (messages in the history) and "
        "emotion. Records without a level are left out. References of implicit needs are longer than others, "
        "and S grows with the length of the reference, so means of different needs should not be compared "
        "directly."
    )
    return Section("difficulty", "By kind of record", (intro, *tables, f"{DETECTABLE} {_FEW}", *effects_tables))


def effects_table(title: str, effects: NeedEffects) -> Table:
    """The effect of an unsaid need: raw, within configs, and at the same length of the reference."""
    labels = {
        "difference of the means": effects.raw,
        "within configs": effects.within_config,
        "within configs, same length of the reference": effects.adjusted,
    }
    rows = []
    for label, effect in labels.items():
        interval = Interval(effect.value, effect.low, effect.high)
        cells = (f"{effect.value:+.2f}", ends(interval, "+.2f"), shown(effect.detectable), f"{effect.p:.4f}")
        rows.append(Row((label, *cells)))
    return Table(
        title,
        (Column("comparison", "text"), *numbers("difference", "95% interval", "detectable", "p")),
        tuple(rows),
        notes=(
            f"{effects.n_unsaid} records whose need is implicit or evolving, {effects.n_explicit} whose need is "
            "explicit; linear regression with errors clustered by relationship.",
            DETECTABLE_PAIRED,
        ),
    )


def _levels_table(title: str, measure: str, parts: Mapping[str, Sequence[Slice]], form: str) -> Table:
    """A measure at the levels of each factor; `form` is that of the interval's ends."""
    columns = (
        Column("factor", "text"),
        Column("level", "text"),
        *numbers("n", measure, "95% interval"),
        Column("detectable", narrow=False),
    )
    rows = [
        Row(
            (
                factor,
                one.level,
                str(one.n),
                shown(one.score.value),
                ends(one.score, form),
                shown(one.detectable, form),
            )
        )
        for factor, levels in parts.items()
        for one in levels
    ]
    return Table(title, columns, tuple(rows))
