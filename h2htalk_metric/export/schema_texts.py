"""Values as the texts that a schema demands."""

__all__ = ["as_texts"]

import json
from collections.abc import Mapping
from typing import Any

from h2htalk_metric.metrics.tokenizers import clean


def as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Every value as text: texts as they are, others as JSON; None is left out."""
    present = {key: value for key, value in values.items() if value is not None}
    return {key: clean(value if isinstance(value, str) else json.dumps(value)) for key, value in present.items()}
