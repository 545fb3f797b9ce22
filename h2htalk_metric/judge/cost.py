"""What judging costs: tokens as the server counts them, prices the user's, and a limit to stop at.

It is an estimate. Before a call its prompt is taken for a token per four bytes, which is too little for some scripts,
and its reply for all the tokens that it may have. Where the server says how many there were, those are charged; replies
that could not be read or were not waited for, and what a server doesn't count, at the estimate. What a server charges
for calls that it broke off or refused is not known.
"""

__all__ = ["Purse", "Spent", "estimated_tokens"]

from collections.abc import Iterable
from dataclasses import dataclass

from h2htalk_datasets.errors import H2HTalkError

_BYTES_A_TOKEN = 4
_FRAME = 8  # tokens around a message


@dataclass
class Spent:
    """Calls and tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0

    def add(self, other: "Spent") -> None:
        """Count another's in."""
        self.calls += other.calls
        self.prompt_tokens += other.prompt_tokens
        self.new_tokens += other.new_tokens

    def times(self, count: int) -> "Spent":
        """As much, so many times."""
        return Spent(count * self.calls, count * self.prompt_tokens, count * self.new_tokens)


class Purse:
    """Counts what is spent, and says before a call whether it may be made.

    Args:
        price_in: per million prompt tokens, in the user's currency.
        price_out: per million new tokens.
        max_cost: no call is begun that by its estimate would pass it; None is no limit.

    Raises:
        H2HTalkError: there is one price without the other, or a limit and no prices.

    """

    def __init__(
        self, price_in: float | None = None, price_out: float | None = None, max_cost: float | None = None
    ) -> None:
        if (price_in is None) != (price_out is None):
            raise H2HTalkError("name both --price-in and --price-out, per million tokens; 0 is free")
        if max_cost is not None and price_in is None:
            raise H2HTalkError("--max-cost needs --price-in and --price-out, per million tokens")
        self._prices = (price_in or 0.0, price_out or 0.0)
        self._limit = max_cost
        self._held = 0.0
        self.spent = Spent()
        self.empty = False

    def cost(self, spent: Spent) -> float:
        """What these tokens cost, in the user's currency."""
        return (spent.prompt_tokens * self._prices[0] + spent.new_tokens * self._prices[1]) / 1e6

    def hold(self, most: Spent) -> bool:
        """Lay by what a call may cost at most; False, and empty from then on, if the limit could be passed."""
        if self._limit is not None and self.cost(self.spent) + self._held + self.cost(most) > self._limit:
            self.empty = True
            return False
        self._held += self.cost(most)
        return True

    def pay(self, most: Spent, real: Spent) -> None:
        """Replace what was laid by for a call with what it took."""
        self._held -= self.cost(most)
        self.spent.add(real)


def estimated_tokens(messages: Iterable[dict[str, str]]) -> int:
    """About how many tokens a prompt has: a quarter of its UTF-8 bytes, and eight a message."""
    return sum(len(message["content"].encode()) // _BYTES_A_TOKEN + _FRAME for message in messages)
