"""What judging costs: tokens counted, prices the user's, a limit that is never passed."""

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


class Purse:
    """Counts what is spent, and says before a call whether it may be made.

    Args:
        price_in: per million prompt tokens, in the user's currency.
        price_out: per million new tokens.
        max_cost: no call is made that could pass it; None is no limit.

    Raises:
        H2HTalkError: there is a limit and no price.

    """

    def __init__(
        self, price_in: float | None = None, price_out: float | None = None, max_cost: float | None = None
    ) -> None:
        if max_cost is not None and (price_in is None or price_out is None):
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
