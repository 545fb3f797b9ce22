"""CompanionMemory as a dataset: one row per question, with the sessions before it."""

__all__ = ["memory_features", "memory_rows"]

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from h2htalk_datasets.corpus.sources import load_people
from h2htalk_datasets.memory.schema import Arc, Question, Session

if TYPE_CHECKING:
    from datasets import Features


def memory_rows(arcs: Iterable[Arc], language: str = "en") -> list[dict[str, Any]]:
    """The questions of arcs as rows, arc by arc; see :func:`memory_features` for the columns."""
    rows = []
    for arc in arcs:
        companion, user = load_people(arc.relationship, language)
        shared = {
            "relationship": arc.relationship,
            "companion": companion.name,
            "user": user.name,
            "persona": companion.profile,
            "language": language,
        }
        rows += [_row(question, arc, shared) for question in arc.questions]
    return rows


def memory_features() -> "Features":
    """The columns as ``datasets.Features``.

    `evidence` names the turns (from 1) in which the facts of a question are said or change; it is empty where a fact is
    never said. `facts` has the sentences of the ledger, with later values.
    """
    from datasets import Features, List, Value

    text: Any = Value("string")
    names = "id relationship companion user persona language family after date message reference".split()
    columns: dict[str, Any] = dict.fromkeys(names, text)
    columns |= {"accept": List(List(text)), "stale": List(text), "reject": List(text), "abstain": List(text)}
    columns |= {"facts": List(text), "evidence": List({"session": text, "turn": Value("int16")})}
    turns = List({"role": text, "content": text})
    return Features(columns | {"sessions": List({"id": text, "date": text, "time": text, "turns": turns})})


def _row(question: Question, arc: Arc, shared: dict[str, Any]) -> dict[str, Any]:
    order = [session.id for session in arc.sessions]
    visible = arc.sessions[: order.index(question.after) + 1]
    facts = [fact for fact in arc.ledger if fact.id in question.facts]
    places = [
        place for fact in facts for place in (*fact.said, *fact.changes, *([fact.discreet] if fact.discreet else []))
    ]
    evidence = sorted({(order.index(place.session), place.turn) for place in places})
    values = question.model_dump(
        include={"family", "after", "message", "reference", "accept", "stale", "reject", "abstain"}
    )
    return {
        "id": f"{shared['language']}-{arc.relationship[:2]}-memory-{question.id}",
        **shared,
        **values,
        "date": question.date.isoformat(),
        "facts": [" Later: ".join([fact.fact, *(change.value for change in fact.changes)]) for fact in facts],
        "evidence": [{"session": order[s], "turn": turn} for s, turn in evidence if s < len(visible)],
        "sessions": [_session(session) for session in visible],
    }


def _session(session: Session) -> dict[str, Any]:
    turns = [{"role": role, "content": text} for turn in session.turns for role, text in turn.items()]
    return {"id": session.id, "date": session.date.isoformat(), "time": session.time, "turns": turns}
