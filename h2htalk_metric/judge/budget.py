"""What judging costs: tokens as the server counts them, the user's prices, and a limit.

Costs are estimates. Before a call, its prompt is estimated as one token per four bytes and its reply as `max_tokens`.
After the call, the server's counts are charged. If usage is missing or a reply is unusable, the estimate is charged.
"""

__all__ = ["Budget", "Usage", "estimate_tokens"]

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from h2htalk_datasets.errors import H2HTalkError

_BYTES_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 8  # of the chat template, around the text


@dataclass
class Usage:
    """Number of calls, prompt tokens and new tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0

    def add(self, other: "Usage") -> None:
        """Add another usage to this one."""
        self.calls += other.calls
        self.prompt_tokens += other.prompt_tokens
        self.new_tokens += other.new_tokens

    def times(self, count: int) -> "Usage":
        """Return this usage multiplied by `count`."""
        return Usage(count * self.calls, count * self.prompt_tokens, count * self.new_tokens)


class Budget:
    """Counts usage and decides before each call whether it may start.

    Args:
        price_in: per million prompt tokens, in the user's currency.
        price_out: per million new tokens.
        max_cost: no call starts that could exceed it by its estimate; None: no limit.

    Attributes:
        usage: of all calls that ended.
        exhausted: whether a call was refused. Calls in flight are never the reason: a call waits for them, since most
            cost less than was reserved for them.

    Raises:
        H2HTalkError: there is only one of the two prices, a limit without prices, or a limit that allows no call.

    """

    def __init__(
        self, price_in: float | None = None, price_out: float | None = None, max_cost: float | None = None
    ) -> None:
        if (price_in is None) != (price_out is None):
            raise H2HTalkError("give both --price-in and --price-out, per million tokens; 0 means free")
        if max_cost is not None and price_in is None:
            raise H2HTalkError("--max-cost needs --price-in and --price-out, per million tokens")
        if max_cost == 0 and (price_in or price_out):
            raise H2HTalkError("--max-cost 0 allows no call at these prices; give more, or estimate with --dry-run")
        self._prices = (price_in or 0.0, price_out or 0.0)
        self._max_cost = max_cost
        self._in_flight: list[Usage] = []
        self._settled = asyncio.Event()
        self.usage = Usage()
        self.exhausted = False

    def cost(self, usage: Usage) -> float:
        """Cost of a usage in the user's currency."""
        return (usage.prompt_tokens * self._prices[0] + usage.new_tokens * self._prices[1]) / 1e6

    async def reserve(self, estimate: Usage) -> bool:
        """Reserve the largest possible cost of a call; if it does not fit, wait for calls in flight.

        Args:
            estimate: the most that the call can take.

        Returns:
            False if the call does not fit and no call is in flight; `exhausted` is True from then on.

        """
        while not self._fits(estimate):
            if not self._in_flight:
                self.exhausted = True
                return False
            await self._settled.wait()
        self._in_flight.append(estimate)
        return True

    def settle(self, estimate: Usage, usage: Usage) -> None:
        """Replace a reservation by what the call took."""
        self._in_flight.remove(estimate)
        self.usage.add(usage)
        self._settled.set()  # wakes all that wait; later ones wait for the next event
        self._settled = asyncio.Event()

    def _fits(self, estimate: Usage) -> bool:
        if self._max_cost is None:
            return True
        reserved = sum(map(self.cost, self._in_flight))
        return self.cost(self.usage) + reserved + self.cost(estimate) <= self._max_cost


def estimate_tokens(messages: Iterable[dict[str, str]]) -> int:
    """Estimated tokens of a prompt: a quarter of its UTF-8 bytes, plus eight per message."""
    return sum(len(message["content"].encode()) // _BYTES_PER_TOKEN + _TOKENS_PER_MESSAGE for message in messages)
