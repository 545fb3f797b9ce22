"""Optional fields of a chat request, adapted to what a server accepts."""

__all__ = ["RequestFields"]

import re
from collections.abc import Collection, Mapping
from typing import Any

from h2htalk_datasets.errors import H2HTalkError

_OTHER_NAMES = {"max_tokens": "max_completion_tokens"}
# Fields that can be left out if they have every server's default value, and the options for that value.
_DEFAULTS = {"temperature": (1, "--temperature 1, or a judge with --explanations 1"), "top_p": (1, "--top-p 1")}
_OPTIONAL = (*_OTHER_NAMES, "seed", *_DEFAULTS)
_REJECTED = "unsupported|not support|not permitted|unknown|unrecognized"
_REJECTED_VALUE = {"temperature": f"{_REJECTED}|invalid|only|must be"}


class RequestFields:
    """Sends optional fields that a server rejects under another name, or leaves them out.

    Args:
        droppable: fields that may be left out with any value; the caller records that, see :meth:`is_left_out`.

    """

    def __init__(self, droppable: Collection[str] = ()) -> None:
        self._droppable = droppable
        self._names: dict[str, str | None] = {}  # of rejected fields; None: left out

    def accepted(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields as the server accepts them."""
        return {name: value for field, value in fields.items() if (name := self._names.get(field, field))}

    def is_left_out(self, field: str) -> bool:
        """Whether a field is not sent any more."""
        return self._names.get(field, field) is None

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
        pattern = r"({words}).{{,80}}\b{field}\b|\b{field}\b.{{,80}}({words})"
        candidates = [field for field in _OPTIONAL if field in sent] if status in (400, 422) else []
        for field in candidates:
            words = _REJECTED_VALUE.get(field, _REJECTED)
            if re.search(pattern.format(field=field, words=words), message, re.I | re.S):
                return self._replace(field, sent[field])
        return None

    def _replace(self, field: str, value: Any) -> str:
        default, options = _DEFAULTS.get(field, (value, ""))
        if value != default and field not in self._droppable:
            raise H2HTalkError(f"the server rejects {field} {value:g}; use {options}")
        if field in self._names:  # concurrent requests are rejected for the same reason
            return ""
        name = self._names[field] = _OTHER_NAMES.get(field)
        return f"rejects the field {field}; from now on it is " + (f"sent as {name}" if name else "left out")
