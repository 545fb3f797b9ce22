"""Options that several commands share, each declared once."""

__all__ = [
    "CorpusLanguageOption",
    "EmbedderOption",
    "JudgeOptions",
    "ModelOptions",
    "PartialOption",
    "PriceOptions",
    "RunArgument",
]

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from h2htalk_datasets.generation.config import DevicesOption, TrustOption

if TYPE_CHECKING:
    from h2htalk_metric.judge.judge import Judge
    from h2htalk_metric.judge.panel import Panel

RunArgument = Annotated[Path, Argument(metavar="RUN", help="The run folder.")]
EmbedderOption = Annotated[
    str, Option("--embedder", help="Embedder for SS: 'BAAI/bge-m3', 'demo', or another Hub id or folder.")
]
CorpusLanguageOption = Annotated[str, Option("--language", help="Language of the records: 'en' or 'zh'.")]
PartialOption = Annotated[bool, Option("--partial", help="Allow fewer records than Table 1.")]


@dataclass(frozen=True)
class JudgeOptions:
    """Who judges, and how requests are sent."""

    judge: Annotated[str | None, Option(help="Model that judges; several names separated by commas are a panel.")] = (
        None
    )
    base_url: Annotated[str | None, Option(help="Base URL of the judge's server. Default: OpenAI's own.")] = None
    explanations: Annotated[
        int, Option(min=0, help="Explanations before each verdict, at temperature 1; 0: scores first, temperature 0.")
    ] = 0
    max_connections: Annotated[int, Option(min=1, help="Concurrent requests to the judge's server.")] = 8
    timeout: Annotated[float, Option(min=1, help="Seconds per attempt of a request to the judge.")] = 120.0

    def panel(self, **settings: Any) -> "Panel | None":
        """The judges as a panel; None if no judge is named.

        Args:
            settings: other fields of the panel, for instance alpha, tau, seed.

        """
        from h2htalk_metric.judge.judge import server_of
        from h2htalk_metric.judge.panel import Panel, judge_names

        names = judge_names(self.judge or "")
        return Panel(names, self.explanations, server=server_of(self.base_url), **settings) if names else None

    def judges(self, panel: "Panel", *, prices: "PriceOptions | None" = None, cached: bool = True) -> "list[Judge]":
        """The judges of a panel, with one common budget.

        Args:
            panel: who judges.
            prices: of tokens; None: usage is counted without costs.
            cached: whether verdicts of earlier runs are used.

        """
        from h2htalk_datasets.generation.chat_client import public_url
        from h2htalk_metric.judge.budget import Budget
        from h2htalk_metric.judge.judge import Judge, verdict_cache
        from h2htalk_metric.judge.structured import StructuredChat

        budget = Budget(prices.price_in, prices.price_out, prices.max_cost) if prices else Budget()
        cache = verdict_cache() if cached else None
        # A dry run sends no request, so it needs no key.
        url = public_url(self.base_url) if prices and prices.dry_run else self.base_url
        chats = [StructuredChat(name, url, timeout=self.timeout) for name in panel.judges]
        return [Judge(chat, panel.num_explanations, panel.seed, cache, budget) for chat in chats]


@dataclass(frozen=True)
class PriceOptions:
    """Prices of the judge's tokens, a limit, and a dry run."""

    price_in: Annotated[float | None, Option(min=0, help="Price per million prompt tokens, in your currency.")] = None
    price_out: Annotated[float | None, Option(min=0, help="Price per million new tokens, in your currency.")] = None
    max_cost: Annotated[
        float | None, Option(min=0, help="Stop before the estimated cost exceeds this; the same command continues.")
    ] = None
    dry_run: Annotated[bool, Option("--dry-run", help="Print the expected calls, tokens and cost only.")] = False


@dataclass(frozen=True)
class ModelOptions:
    """How a run's model is loaded again; everything else is in ``run.json``."""

    model_url: Annotated[
        str | None, Option(help="Base URL of the model's server, if it is not the one in run.json.")
    ] = None
    trust_remote_code: TrustOption = False
    devices_per_replica: DevicesOption = 1
