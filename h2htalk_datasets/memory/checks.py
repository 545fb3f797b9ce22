"""What must hold in an arc beyond its schema: sizes, counts of families, evidence, and forms that fit."""

__all__ = ["arc_problems", "check_arcs", "questions_per_family"]

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from h2htalk_datasets.corpus.check import Check
from h2htalk_datasets.memory.patterns import SENTENCE_END, contains, normalize
from h2htalk_datasets.memory.schema import FAMILIES, Arc, Fact, Question, Session
from h2htalk_datasets.memory.verdicts import verdict
from h2htalk_datasets.words import words

_WORDS = (2300, 4200)
_IN_THE_MIDDLE = 4  # questions that are asked before the last session
_ODD = ("recall", "update", "abstention", "proactive")
_EVEN = ("order", "join", "contradiction", "discretion")


def questions_per_family(relationship: str) -> dict[str, int]:
    """How many questions of each family an arc has: two of four families and one of the others, in turn."""
    doubled = _ODD if int(relationship[:2]) % 2 else _EVEN
    return {family: 1 + (family in doubled) for family in FAMILIES}


def check_arcs(arcs: Sequence[Arc]) -> list[Check]:
    """Check all arcs of a language, and that each question is written for its arc only."""
    problems = [f"{arc.relationship}, {problem}" for arc in arcs for problem in arc_problems(arc)]
    messages = Counter(" ".join(words(question.message)) for arc in arcs for question in arc.questions)
    repeated = [message for message, count in messages.items() if count > 1]
    return [
        Check.no_offenders("CompanionMemory: rules of arcs", problems),
        Check.no_offenders("CompanionMemory: every question occurs once", repeated),
    ]


def arc_problems(arc: Arc) -> list[str]:
    """The problems of an arc, one line each, which begins with the id of a session, fact or question."""
    size = sum(len(words(text)) for session in arc.sessions for turn in session.turns for text in turn.values())
    problems = [] if _WORDS[0] <= size <= _WORDS[1] else [f"sessions: {size} words, not {_WORDS[0]} to {_WORDS[1]}"]
    counts, wanted = Counter(question.family for question in arc.questions), questions_per_family(arc.relationship)
    problems += [f"questions: {counts[f]} of {f}, not {n}" for f, n in wanted.items() if counts[f] != n]
    middle = sum(question.after != arc.sessions[-1].id for question in arc.questions)
    if middle < _IN_THE_MIDDLE:
        problems.append(f"questions: {middle} asked before the last session, not at least {_IN_THE_MIDDLE}")
    facts = {fact.id: fact for fact in arc.ledger}
    spoken = [_tokens(session) for session in arc.sessions]
    for question in arc.questions:
        of_question = [facts[identity] for identity in question.facts]
        found = _question_problems(question, of_question, arc.sessions, spoken)
        problems += [f"{question.id}: {problem}" for problem in found]
    return problems


def _tokens(session: Session) -> list[str]:
    return [*normalize("\n".join(text for turn in session.turns for text in turn.values())), SENTENCE_END]


def _question_problems(
    question: Question, facts: Sequence[Fact], sessions: Sequence[Session], spoken: Sequence[list[str]]
) -> list[str]:
    order = [session.id for session in sessions]
    asked_after = order.index(question.after)
    problems = []
    if question.date < sessions[asked_after].date:
        problems.append(f"asked on {question.date}, before {question.after}")
    if asked_after + 1 < len(order) and question.date >= sessions[asked_after + 1].date:
        problems.append(f"asked on {question.date}, not before {order[asked_after + 1]}")
    if late := [f.id for f in facts if f.said and order.index(f.said[0].session) > asked_after]:
        problems.append(f"depends on {', '.join(late)}, which is said later")
    result = verdict(question.model_dump(), question.reference)
    if result != "right":
        problems.append(f"the verdict on its reference is {result}")
    message = normalize(question.message)
    if question.accept and all(any(contains(message, form) for form in group) for group in question.accept):
        problems.append("its message already has the accepted forms")
    if question.family == "abstention" and not all(fact.never_said for fact in facts):
        problems.append("an abstention must depend on facts that are never said")
    text = list(chain.from_iterable(spoken[: asked_after + 1]))
    if question.family in ("recall", "update", "contradiction", "discretion"):  # the others may need a conclusion
        problems += [f"none of {group} stands in the sessions" for group in question.accept if not _any(text, group)]
    if question.family == "update":
        problems += [f"stale form {form!r} stands in no session" for form in question.stale if not _any(text, [form])]
        if not any(fact.changes for fact in facts):
            problems.append("an update must depend on a fact that changes")
    if question.family == "discretion" and not any(fact.discreet for fact in facts):
        problems.append("discretion must depend on a fact that is discreet")
    return problems


def _any(text: Sequence[str], forms: Sequence[str]) -> bool:
    return any(contains(text, form) for form in forms)
