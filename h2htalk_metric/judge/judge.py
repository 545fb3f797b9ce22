"""A judge scores one answer: both positions, any number of explanations, every verdict validated, one correction."""

__all__ = ["Judge", "JudgeCall", "server_of", "verdict_cache"]

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from h2htalk_datasets.files import cache_folder
from h2htalk_datasets.generation.chat_client import Reply, RequestFailed, public_url
from h2htalk_metric.cache import DiskCache
from h2htalk_metric.judge.budget import Budget, Usage, estimate_tokens
from h2htalk_metric.judge.judge_items import JudgeItem
from h2htalk_metric.judge.judgement import Judgement, item_key
from h2htalk_metric.judge.prompt import both_positions, judging_messages
from h2htalk_metric.judge.structured import StructuredChat
from h2htalk_metric.judge.verdict import InvalidVerdict, Verdict, read_verdict, verdict_schema

_MAX_RAW_REPLY = 4000  # characters of a reply that could not be used
_CUT_OFF = {
    "length": "it ran into the limit of its length",
    "content_filter": "the server's content filter stopped it",
}


class JudgeCall(NamedTuple):
    """One call: the blocks of an item in one order, with one seed."""

    item: JudgeItem
    position: str
    blocks: Mapping[str, str]
    seed: int


class _BudgetExhausted(Exception):
    """The budget allows no further call."""


@dataclass
class Judge:
    """A judging model and its settings.

    Attributes:
        chat: the model.
        num_explanations: explanations per position before scores (temperature 1, one seed each). With 0 the judge
            scores first, at temperature 0, and explains afterwards. If its server refuses temperature 0, the model's
            default is used.
        seed: of the first call.
        cache: of verdicts; None: every verdict is requested again.
        budget: shared by the judges of a panel.

    """

    chat: StructuredChat
    num_explanations: int = 0
    seed: int = 0
    cache: DiskCache | None = None
    budget: Budget = field(default_factory=Budget)

    @property
    def name(self) -> str:
        """The model's name, as the user gave it."""
        return self.chat.model

    @property
    def server(self) -> str | None:
        """See :func:`server_of`."""
        return server_of(self.chat.url)

    @property
    def explain_first(self) -> bool:
        """Whether the judge explains before it scores."""
        return self.num_explanations > 0

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a request, without its prompt and seed; without a temperature the server uses its default."""
        if self.explain_first:
            return {"temperature": 1.0, "max_tokens": 2048}
        return ({} if self.default_temperature else {"temperature": 0.0}) | {"max_tokens": 1024}

    @property
    def default_temperature(self) -> bool:
        """Whether the server refuses temperature 0, so that the model has its default."""
        return not self.explain_first and self.chat.default_temperature

    def calls(self, item: JudgeItem) -> list[JudgeCall]:
        """The calls that an item takes: positions times explanations."""
        seeds = range(self.seed, self.seed + max(1, self.num_explanations))
        orders = both_positions(item.blocks)
        return [JudgeCall(item, position, blocks, seed) for position, blocks in orders.items() for seed in seeds]

    def messages(self, call: JudgeCall, correction: str | None = None) -> list[dict[str, str]]:
        """The prompt of a call; `correction` says what was wrong with an earlier reply."""
        return judging_messages(
            call.item.rubric,
            call.item.context,
            call.blocks,
            explain_first=self.explain_first,
            correction=correction,
            item_context=call.item.item_context,
        )

    def key(self, item: JudgeItem) -> str:
        """See :func:`h2htalk_metric.judge.judgement.item_key`."""
        return item_key(
            item,
            self.name,
            self.num_explanations,
            self.seed,
            self.server,
            default_temperature=self.default_temperature,
        )

    def estimate(self, items: Iterable[JudgeItem]) -> Usage:
        """Estimated usage of the calls that the cache does not answer.

        A reply is estimated as twelve tokens per criterion plus 60 for the explanation, or 300 if the judge explains
        first.
        """
        usage = Usage()
        for item in items:
            for call in self.calls(item):
                if self._cached(call) is None:
                    new_tokens = 12 * len(item.rubric.criteria) + (300 if self.explain_first else 60)
                    usage.add(Usage(1, estimate_tokens(self.messages(call)), new_tokens))
        return usage

    async def evaluate(self, item: JudgeItem) -> Judgement | None:
        """Judge one item.

        Returns:
            A judgement, unscored with its reason if any call failed; None if the budget was exhausted before the item
            was done.

        Raises:
            H2HTalkError: the server refuses every request.

        """
        usage = Usage()
        verdicts: dict[str, list[Verdict]] = {}
        about: dict[str, Any] = {
            "rubric": item.rubric.name,
            "rubric_hash": item.rubric.hash,
            "server": self.server,
            "usage": usage,
        }
        try:
            for call in self.calls(item):
                verdicts.setdefault(call.position, []).append(await self._verdict(call, usage))
            about |= _means(verdicts)
        except RequestFailed as failure:
            about |= {"unscored": str(failure), "raw_reply": failure.raw}
        except InvalidVerdict as failure:
            reason = f"no valid verdict, also after a correction: {failure}"
            about |= {"unscored": reason, "raw_reply": failure.raw_reply[:_MAX_RAW_REPLY]}
        except _BudgetExhausted:
            return None
        return Judgement(item.id, judge_model=self.name, key=self.key(item), **about)

    async def _verdict(self, call: JudgeCall, usage: Usage) -> Verdict:
        """The verdict of a call: from the cache, from the first reply, or after one correction; adds to `usage`."""
        if (cached := self._cached(call)) is not None:
            usage.add(Usage(**cached["usage"]))
            return Verdict(cached["marks"], cached["why"])
        own_usage = Usage()
        try:
            try:
                verdict = await self._request(call, own_usage)
            except InvalidVerdict as failure:
                verdict = await self._request(call, own_usage, str(failure))
        finally:
            usage.add(own_usage)
        if self.cache:
            content = {"marks": verdict.scores, "why": verdict.explanation, "usage": vars(own_usage)}
            self.cache.put({self._cache_key(call, self.settings): json.dumps(content)})
        return verdict

    async def _request(self, call: JudgeCall, usage: Usage, correction: str | None = None) -> Verdict:
        """One request within the budget; adds what it took to `usage`."""
        messages = self.messages(call, correction)
        estimate = Usage(1, estimate_tokens(messages), self.settings["max_tokens"])
        if not await self.budget.reserve(estimate):
            raise _BudgetExhausted
        charged = Usage()
        try:
            schema = verdict_schema(call.item.rubric, explain_first=self.explain_first)
            reply = await self.chat.complete(messages, schema, seed=call.seed, **self.settings)
            charged = _charged(reply, estimate)
        except RequestFailed as failure:
            charged = estimate.times(failure.discarded_replies)
            raise
        finally:
            self.budget.settle(estimate, charged)
            usage.add(charged)
        try:
            return read_verdict(call.item.rubric, reply.text)
        except InvalidVerdict:
            if reply.finish_reason in _CUT_OFF:
                raise InvalidVerdict(_CUT_OFF[reply.finish_reason], reply.text) from None
            raise

    def _cached(self, call: JudgeCall) -> dict[str, Any] | None:
        """A stored verdict, also one at the default temperature: its server refused temperature 0 then."""
        at_default = {name: value for name, value in self.settings.items() if name != "temperature"}
        for settings in (self.settings, at_default):
            key = self._cache_key(call, settings)
            values = self.cache.get([key]) if self.cache else {}
            try:
                cached = json.loads(values[key]) if key in values else None
            except ValueError:  # damaged: request it again
                continue
            if cached is not None:
                if settings == at_default:
                    self.chat.use_default_temperature()
                return cached
        return None

    def _cache_key(self, call: JudgeCall, settings: Mapping[str, Any]) -> str:
        """SHA-256 (hex) over everything that a reply depends on."""
        request = {"url": self.chat.url, "model": self.name, "settings": settings, "seed": call.seed}
        request |= {"messages": self.messages(call), "rubric": call.item.rubric.hash}
        return sha256(json.dumps(request, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def verdict_cache(file: Path | None = None) -> DiskCache:
    """The cache of valid verdicts, so that no verdict is paid for twice; failures are never stored.

    Args:
        file: None: ``h2htalk/verdicts.sqlite`` under ``HF_HOME``.

    """
    return DiskCache(file or cache_folder() / "verdicts.sqlite", "verdicts")


def server_of(url: str | None) -> str | None:
    """The server's address without user, password and query, as part of a judge's identity; None is OpenAI's own.

    Many servers use the same name for different models.
    """
    return None if public_url(url) == public_url(None) else public_url(url)


def _charged(reply: Reply, estimate: Usage) -> Usage:
    """What a reply took. If the server counts no tokens, and for discarded replies, the estimate is charged."""
    usage = Usage(1, reply.prompt_tokens or estimate.prompt_tokens, reply.new_tokens or estimate.new_tokens)
    usage.add(estimate.times(reply.discarded_replies))
    return usage


def _means(verdicts: Mapping[str, list[Verdict]]) -> dict[str, Any]:
    """Scores of a judgement from its verdicts by position."""
    position_scores = {name: _mean([one.scores for one in replies]) for name, replies in verdicts.items()}
    scores = _mean(list(position_scores.values()))
    score = {name: fmean(one.values()) for name, one in position_scores.items()}
    return {
        "scores": scores,
        "position_scores": position_scores,
        "score": fmean(scores.values()),
        "position_bias": score["answer_first"] - score["reference_first"] if len(score) > 1 else None,
        "explanations": {name: [one.explanation for one in replies] for name, replies in verdicts.items()},
    }


def _mean(scores: list[Any]) -> dict[str, float]:
    return {name: fmean(one[name] for one in scores) for name in scores[0]}
