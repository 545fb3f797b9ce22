"""Prompts: turn a record into the messages that a model gets.

The system message has what many records share, the most shared part first: the Secure Attachment Persona (SAP), the
companion's profile, the task's instructions. The user message has the record's own part. So thousands of prompts
share a prefix, which generation computes once.
"""

__all__ = [
    "PROMPT_DATE",
    "SAP",
    "Principle",
    "chat_text",
    "describe_templates",
    "fold_system",
    "for_template",
    "principles",
    "prompt_date",
    "render",
    "render_memory",
    "render_probe",
    "render_user",
    "template_arguments",
]

from h2htalk_datasets.prompts.chat_template import (
    PROMPT_DATE,
    chat_text,
    fold_system,
    for_template,
    prompt_date,
    template_arguments,
)
from h2htalk_datasets.prompts.rendering import (
    SAP,
    Principle,
    describe_templates,
    principles,
    render,
    render_memory,
    render_probe,
    render_user,
)
