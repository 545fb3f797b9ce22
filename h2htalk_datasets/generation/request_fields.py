"""Optional fields of a chat request, adapted to what a server accepts."""

__all__ = ["RequestFields"]

import re
from collections.abc import Mapping
from typing import Any

from h2htalk_datasets.errors import H2HTalkError

_OTHER_NAMES = {"max_tokens": "max_completion_tokens"}
# Fields that can be left out if they have every server's default value, and the options for that value.
_DEFAULTS = {"temperature": (1, "--temperature 1, or a judge with --explanations 1"), "top_p": (1, "--top-p 1")}
_OPTIONAL = (*_OTHER_NAMES, "seed", *_DEFAULTS)
_REJECTED = "unsupported|not support|not permitted|unknown|unrecognized"


class RequestFields:
    """Sends optional fields that a server rejects under another name, or leaves them out."""

    def __init__(self) -> None:
        self._names: dict[str, str | None] = {}  # of rejected fields; None: left out

    def accepted(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields as the server accepts them."""
        return {name: value for field, value in fields.items() if (name := self._names.get(field, field))}

    def adapt(self, sent: Mapping[str, Any], status: int, message: str) -> str | None:
        """Adapt to an error reply.

        Args:
            sent: fields of the request.
            status: of the reply.
            message: body of the reply.

        Returns:
            What changes from now on, empty if it changed before; None if the error is not about an optional field.

        Raises:
            H2HTalkError: leaving the field out would change the answers.

        """
        # Both words must be close to each other, because the rest of the message may quote the prompt.
        pattern = rf"({_REJECTED}).{{,80}}\b%s\b|\b%s\b.{{,80}}({_REJECTED})"
        candidates = [field for field in _OPTIONAL if field in sent] if status in (400, 422) else []
        for field in candidates:
            if re.search(pattern % (field, field), message, re.I | re.S):
                return self._replace(field, sent[field])
        return None

    def _replace(self, field: str, value: Any) -> str:
        default, options = _DEFAULTS.get(field, (value, ""))
        if value != default:
            raise H2HTalkError(f"the server rejects {field} {value:g}; use {options}")
        if field in self._names:  # concurrent requests are rejected for the same reason
            return ""
        name = self._names[field] = _OTHER_NAMES.get(field)
        return f"rejects the field {field}; from now on it is " + (f"sent as {name}" if name else "left out")
