"""Tables of the scores by need, difficulty, length of the conversation and emotion."""

__all__ = ["difficulty", "effects_table"]

from h2htalk_metric.judge.judged_run import JudgedRun
from h2htalk_metric.reports.table import Column, Row, Section, Table, ends, numbers, shown
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.runs.slices import FACTORS, NeedEffects, need_effects, slices
from h2htalk_metric.stats.intervals import Interval


def difficulty(run_scores: RunScores, judged: JudgedRun | None = None) -> Section | None:
    """S and J by what makes a record hard, and the effect of an unsaid need; None for runs without these columns."""
    table = _levels_table(run_scores, judged)
    if not table.rows:
        return None
    effects = need_effects(run_scores)
    title = "Unsaid minus explicit needs, S times 100"
    intro = (
        "S times 100 by need (is it said openly?), difficulty (1 to 3), turns (messages in the history) and "
        "emotion. Records without a level are left out. References of implicit needs are longer than others, "
        "and S grows with the length of the reference, so means of different needs should not be compared "
        "directly."
    )
    return Section(
        "difficulty", "By kind of record", (intro, table, *([effects_table(title, effects)] if effects else []))
    )


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
        rows.append(Row((label, f"{effect.value:+.2f}", ends(interval, "+.2f"), f"{effect.p:.4f}")))
    return Table(
        title,
        (Column("comparison", "text"), *numbers("difference", "95% interval", "p")),
        tuple(rows),
        notes=(
            f"{effects.n_unsaid} records whose need is implicit or evolving, {effects.n_explicit} whose need is "
            "explicit; linear regression with errors clustered by relationship.",
        ),
    )


def _levels_table(run_scores: RunScores, judged: JudgedRun | None) -> Table:
    columns = (Column("factor", "text"), Column("level", "text"), *numbers("n", "S", "95% interval"))
    if judged:
        columns += numbers("n with J", "J, 0 to 5", "95% interval of J")
        j_of_items = run_scores.items["id"].map(judged.items.set_index("id")["j"])
    rows = []
    for factor in FACTORS:
        j_slices = {one.level: one for one in slices(run_scores, factor, j_of_items, (0, 5))} if judged else {}
        for one in slices(run_scores, factor):
            cells = [factor, one.level, str(one.n), shown(one.score.value), ends(one.score, ".1f")]
            if judged:
                j = j_slices.get(one.level)
                cells += [str(j.n), shown(j.score.value), ends(j.score)] if j else ["0", "-", "-"]
            rows.append(Row(tuple(cells)))
    return Table("S by level" if not judged else "S and J by level", columns, tuple(rows))
