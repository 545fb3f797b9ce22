"""A judge marks an item: both positions, as many draws as asked, each verdict validated, repaired once, or a reason."""

__all__ = ["Item", "Judge", "Question", "item_key", "mean_marks", "server_of"]

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from statistics import fmean
from typing import Any, NamedTuple

from h2htalk_datasets.generation.chat_client import NoReply, public_url
from h2htalk_metric.judge.cache import VerdictCache
from h2htalk_metric.judge.cost import Purse, Spent, estimated_tokens
from h2htalk_metric.judge.prompt import both_positions, judging_messages, prompt_hash
from h2htalk_metric.judge.rubric import Rubric
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.judge.verdict import Verdict, VerdictFault, read_verdict, verdict_schema

_RAW_KEPT = 4000  # characters of a reply that could not be used


@dataclass(frozen=True)
class Item:
    """What is to be marked.

    Attributes:
        id: of the record.
        rubric: what the answer is marked by.
        context: what the answer's writer was given, or None.
        blocks: untrusted texts; ``answer`` is marked, beside a ``reference`` or alone.
        particulars: what the rubric needs to know of this one record, or None; our own words, given as instructions.

    """

    id: str
    rubric: Rubric
    context: str | None
    blocks: Mapping[str, str]
    particulars: str | None = None


class Question(NamedTuple):
    """One call: the blocks in one order, one draw."""

    item: Item
    position: str
    order: Mapping[str, str]
    seed: int


class _PurseEmpty(Exception):
    """The purse allows no further call."""


@dataclass
class Judge:
    """A judging model and how it is asked.

    Attributes:
        chat: the model.
        evidence: how many explanations are drawn before marks are given (temperature 1, a seed each); with 0 the
            judge marks at once, greedily, and gives its reason after.
        seed: of the first draw.
        cache: verdicts already given, or None to ask everything anew.
        purse: what may be spent.

    """

    chat: StructuredChat
    evidence: int = 0
    seed: int = 0
    cache: VerdictCache | None = None
    purse: Purse = field(default_factory=Purse)

    @property
    def name(self) -> str:
        """The model's name, as the user gave it."""
        return self.chat.model

    @property
    def server(self) -> str | None:
        """Where it is asked, see :func:`server_of`."""
        return server_of(self.chat.url)

    @property
    def settings(self) -> dict[str, Any]:
        """How the model is asked, beside the prompt."""
        temperature = 1.0 if self.evidence else 0.0
        return {"temperature": temperature, "max_tokens": 2048 if self.evidence else 1024}

    def questions(self, item: Item) -> list[Question]:
        """The calls that an item takes."""
        draws = range(self.seed, self.seed + max(1, self.evidence))
        return [Question(item, name, order, s) for name, order in both_positions(item.blocks).items() for s in draws]

    def messages(self, question: Question, correction: str | None = None) -> list[dict[str, str]]:
        """The prompt of a call."""
        item, evidence = question.item, self.evidence > 0
        return judging_messages(
            item.rubric,
            item.context,
            question.order,
            evidence=evidence,
            correction=correction,
            particulars=item.particulars,
        )

    def key(self, item: Item) -> str:
        """Sixteen hex digits of all that an item's marks depend on."""
        return item_key(item, self.name, self.evidence, self.seed, self.server)

    def estimate(self, items: Iterable[Item]) -> Spent:
        """About what items will take, from calls that the cache doesn't answer.

        A prompt is estimated from its bytes, a reply as twelve tokens a criterion and sixty for the reason, or three
        hundred for evidence.
        """
        about = Spent()
        for item in items:
            for question in self.questions(item):
                if not (self.cache and self.cache.get(self._cache_key(question))):
                    new = 12 * len(item.rubric.criteria) + (300 if self.evidence else 60)
                    about.add(Spent(1, estimated_tokens(self.messages(question)), new))
        return about

    async def mark(self, item: Item) -> dict[str, Any] | None:
        """Mark an item.

        Returns:
            A line for ``judgements.jsonl``, with ``unscored`` and its reason if any call failed; None if the purse
            was empty before the item was done.

        Raises:
            H2HTalkError: the server refuses every request.

        """
        used = Spent()
        given: dict[str, list[Verdict]] = {}
        line: dict[str, Any] = {"id": item.id, "judge": self.name, "key": self.key(item)}
        line |= {"rubric": item.rubric.name, "rubric_hash": item.rubric.hash}
        line |= {"server": self.server} if self.server else {}
        try:
            for question in self.questions(item):
                given.setdefault(question.position, []).append(await self._ask(question, used))
        except NoReply as failure:
            return line | {"unscored": str(failure), "raw": failure.raw, "usage": asdict(used)}
        except VerdictFault as fault:
            reason = f"no valid verdict, also after a correction: {fault}"
            return line | {"unscored": reason, "raw": fault.raw[:_RAW_KEPT], "usage": asdict(used)}
        except _PurseEmpty:
            return None
        return line | _summary(given) | {"usage": asdict(used)}

    async def _ask(self, question: Question, used: Spent) -> Verdict:
        """The verdict on one question, from the cache, at once, or after one correction; adds to `used`."""
        key = self._cache_key(question)
        if kept := self.cache and self.cache.get(key):
            used.add(Spent(**kept["usage"]))
            return Verdict(kept["marks"], kept["why"])
        mine = Spent()
        try:
            try:
                verdict = await self._once(question, mine)
            except VerdictFault as fault:
                verdict = await self._once(question, mine, str(fault))
        finally:
            used.add(mine)
        if self.cache:
            self.cache.put(key, {"marks": verdict.marks, "why": verdict.why, "usage": asdict(mine)})
        return verdict

    async def _once(self, question: Question, used: Spent, correction: str | None = None) -> Verdict:
        rubric, messages = question.item.rubric, self.messages(question, correction)
        most = Spent(1, estimated_tokens(messages), self.settings["max_tokens"])
        if not self.purse.hold(most):
            raise _PurseEmpty
        real = Spent()
        try:
            schema = verdict_schema(rubric, evidence=self.evidence > 0)
            reply = await self.chat.complete(messages, schema, seed=question.seed, **self.settings)
            # Where a server counts nothing, and for replies that could not be read, the most it can be is charged.
            real = Spent(1, reply.prompt_tokens or most.prompt_tokens, reply.new_tokens or most.new_tokens)
            real.add(most.times(reply.spoiled))
        except NoReply as failure:
            real = most.times(failure.spoiled)
            raise
        finally:
            self.purse.pay(most, real)
            used.add(real)
        try:
            return read_verdict(rubric, reply.text)
        except VerdictFault as fault:
            if reply.finish_reason == "length":
                raise VerdictFault("it ran into the limit of its length", reply.text) from None
            if reply.finish_reason == "content_filter":
                raise VerdictFault("the server's content filter stopped it", reply.text) from None
            raise fault

    def _cache_key(self, question: Question) -> str:
        asked = {"url": self.chat.url, "model": self.name, "settings": self.settings, "seed": question.seed}
        asked |= {"messages": self.messages(question), "rubric": question.item.rubric.hash}
        return VerdictCache.key(asked)


def server_of(url: str | None) -> str | None:
    """A server's address as part of who a judge is, for many servers call their model the same; None is OpenAI's own.

    It bears no user, password and query.
    """
    return None if public_url(url) == public_url(None) else public_url(url)


def item_key(item: Item, judge: str, evidence: int, seed: int, server: str | None = None) -> str:
    """What :meth:`Judge.key` says, where no judge is at hand."""
    who = (judge, server) if server else (judge,)
    known = (item.context, item.particulars) if item.particulars else (item.context,)
    asked = (*who, evidence, seed, prompt_hash(), item.rubric.hash, *known, *item.blocks.items())
    return sha256(repr(asked).encode()).hexdigest()[:16]


def mean_marks(marks: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mark by mark, the mean of several markings."""
    return {name: fmean(one[name] for one in marks) for name in marks[0]}


def _summary(given: Mapping[str, Sequence[Verdict]]) -> dict[str, Any]:
    positions = {name: mean_marks([verdict.marks for verdict in verdicts]) for name, verdicts in given.items()}
    verdict = mean_marks(list(positions.values()))
    scores = {name: fmean(marks.values()) for name, marks in positions.items()}
    gap = 2 * scores["answer_first"] - sum(scores.values()) if len(scores) > 1 else None
    return {
        "positions": positions,
        "verdict": verdict,
        "score": fmean(verdict.values()),
        "position_gap": gap,
        "why": {name: [verdict.why for verdict in verdicts] for name, verdicts in given.items()},
    }
