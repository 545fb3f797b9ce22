"""What judging will cost or has cost, for all commands that judge: estimates, usage, and why judging stopped."""

__all__ = ["print_estimate", "print_stopped", "print_usage"]

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from h2htalk_metric.cli.options import PriceOptions
    from h2htalk_metric.judge.judge import Judge
    from h2htalk_metric.judge.judge_items import JudgeItem


def print_estimate(
    num_items: int, judges: "Sequence[Judge]", jobs: "Sequence[tuple[Judge, JudgeItem]]", prices: "PriceOptions"
) -> None:
    """Print the expected calls, tokens and cost.

    Args:
        num_items: answers, also those that are judged already.
        judges: of the panel.
        jobs: judges and items without a verdict.
        prices: of tokens.

    """
    from h2htalk_metric.judge.budget import Usage

    usage = Usage()
    for judge in judges:
        usage.add(judge.estimate(item for of_judge, item in jobs if of_judge is judge))
    print(f"{num_items} answers, {len(judges)} judges: {len(jobs)} judgements to make, {usage.calls} calls")
    print(f"about {usage.prompt_tokens} prompt tokens and {usage.new_tokens} new tokens")
    print("estimated: 4 bytes per prompt token, 12 tokens per mark, 60 per explanation (300 with --explanations)")
    if prices.price_in is not None and judges:
        print(f"about {judges[0].budget.cost(usage):.4f} at these prices, without corrections and retries")


def print_usage(judges: "Sequence[Judge]") -> None:
    """Print what the judges' calls have taken."""
    budget = judges[0].budget
    usage, cost = budget.usage, budget.cost(budget.usage)
    tokens = f"{usage.calls} calls, {usage.prompt_tokens} prompt tokens, {usage.new_tokens} new tokens"
    print(f"usage: {tokens}" + (f", cost {cost:.4f}" if cost else ""))


def print_stopped(judges: "Sequence[Judge]", num_open: int, where: str = "") -> None:
    """Print why judgements are open, if any are.

    Args:
        judges: that have ended.
        num_open: judgements without a verdict.
        where: what the line begins with.

    """
    if judges[0].budget.exhausted:
        print(
            f"{where}stopped: the next call could exceed --max-cost; {num_open} judgements are open, run it again to "
            "continue"
        )
    elif num_open:
        print(
            f"{where}{num_open} judgements are unscored, with reasons in judgements.jsonl; run it again to retry them"
        )
