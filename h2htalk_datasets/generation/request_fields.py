"""Optional fields of a chat request, adapted to what a server accepts."""

__all__ = ["RequestFields"]

import re
from collections.abc import Mapping
from typing import Any

_OTHER_NAMES = {"max_tokens": "max_completion_tokens"}
# A field with its default value can be left out; for any other value the user has to choose.
_DEFAULTS = {"temperature": (1, "use --temperature 1, or a judge --explanations 1"), "top_p": (1, "use --top-p 1")}
_OPTIONAL = (*_OTHER_NAMES, "seed", *_DEFAULTS)
_REJECTED = "unsupported|not support|not permitted|unknown|unrecognized"


class RequestFields:
    """Remembers which optional fields a server rejects, and sends them under another name or leaves them out."""

    def __init__(self) -> None:
        self._names: dict[str, str | None] = {}  # of rejected fields; None: left out

    def accepted(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields as the server accepts them."""
        return {name: value for field, value in fields.items() if (name := self._names.get(field, field))}

    def rejected(self, fields: Mapping[str, Any], status: int, message: str) -> str | None:
        """Return the optional field that an error reply rejects, or None for any other error."""
        if status not in (400, 422):
            return None
        # Both words must be close to each other, because the rest of the message may quote the prompt.
        pattern = rf"({_REJECTED}).{{,80}}\b%s\b|\b%s\b.{{,80}}({_REJECTED})"
        sent = (field for field in _OPTIONAL if field in fields)
        return next((field for field in sent if re.search(pattern % (field, field), message, re.I | re.S)), None)

    def replace(self, field: str, value: Any) -> str | None:
        """Rename a field or leave it out from now on; return what was done, or None if it was done before.

        Raises:
            ValueError: leaving it out would change the answers; the message says what the user can do.

        """
        default, hint = _DEFAULTS.get(field, (value, ""))
        if value != default:
            raise ValueError(hint)
        if field in self._names:  # concurrent requests are rejected for the same reason
            return None
        name = self._names[field] = _OTHER_NAMES.get(field)
        return f"sent as {name}" if name else "left out"
