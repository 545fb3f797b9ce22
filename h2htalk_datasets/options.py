"""Command options declared once, as annotated fields of a dataclass."""

__all__ = ["with_options"]

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_origin, get_type_hints


def with_options(**groups: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one option per annotated field of a dataclass, in place of one of its parameters.

    Args:
        groups: parameter name to dataclass. The command is called with an instance of it, and the fields become
            options of their own: ``with_options(judging=JudgeOptions)``.

    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = {name: _options(group) for name, group in groups.items()}
        own = [p for name, p in signature(command).parameters.items() if name not in groups]

        @wraps(command)
        def wrapper(**arguments: Any) -> None:
            for name, group in groups.items():
                values = {
                    option.name: arguments.pop(option.name) for option in options[name] if option.name in arguments
                }
                arguments[name] = group(**values)
            command(**arguments)

        parameters = [*own, *(option for of_group in options.values() for option in of_group)]
        parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
        required_first = sorted(parameters, key=lambda parameter: parameter.default is not Parameter.empty)
        wrapper.__signature__ = Signature(required_first)  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _options(group: type) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
        if get_origin(hints[field.name]) is Annotated
    ]
