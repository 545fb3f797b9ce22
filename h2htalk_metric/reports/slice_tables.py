"""Tables of the scores by need, difficulty, length of the conversation and emotion."""

__all__ = ["difficulty"]

from h2htalk_metric.reports.table import Column, Row, Section, Table, ends, numbers, shown
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.runs.slices import FACTORS, NeedEffects, need_effects, slices
from h2htalk_metric.stats.intervals import Interval


def difficulty(run_scores: RunScores) -> Section | None:
    """S by what makes a record hard, and the effect of an unsaid need; None for runs without these columns."""
    rows = [
        Row((factor, one.level, str(one.n), shown(one.score.value), ends(one.score, ".1f")))
        for factor in FACTORS
        for one in slices(run_scores, factor)
    ]
    if not rows:
        return None
    columns = (Column("factor", "text"), Column("level", "text"), *numbers("n", "S", "95% interval"))
    effects = need_effects(run_scores)
    return Section(
        "difficulty",
        "By kind of record",
        (
            "S times 100 by need (is it said openly?), difficulty (1 to 3), turns (messages in the history) and "
            "emotion. Records without a level are left out. References of implicit needs are longer than others, "
            "and S grows with the length of the reference, so means of different needs should not be compared "
            "directly.",
            Table("S by level", columns, tuple(rows)),
            *([_effects_table(effects)] if effects else []),
        ),
    )


def _effects_table(effects: NeedEffects) -> Table:
    named = {
        "difference of the means": effects.raw,
        "within configs": effects.within_config,
        "within configs, same length of the reference": effects.adjusted,
    }
    rows = []
    for label, effect in named.items():
        interval = Interval(effect.value, effect.low, effect.high)
        rows.append(Row((label, f"{effect.value:+.2f}", ends(interval, "+.2f"), f"{effect.p:.4f}")))
    return Table(
        "Unsaid minus explicit needs",
        (Column("comparison", "text"), *numbers("difference", "95% interval", "p")),
        tuple(rows),
        notes=(
            f"{effects.n_unsaid} records whose need is implicit or evolving, {effects.n_explicit} whose need is "
            "explicit; linear regression with errors clustered by relationship.",
        ),
    )
