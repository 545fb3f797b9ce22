"""Prompts: a record becomes the messages a model is sent.

The system message holds what many records share, the most shared first: the Secure Attachment Persona
(SAP), the companion's profile, the task's instructions. The user message holds the record's own. So
thousands of prompts share their first tokens, which generation computes once.
"""

__all__ = [
    "PROMPT_DATE",
    "SAP",
    "Principle",
    "chat_text",
    "fold_system",
    "for_template",
    "principles",
    "prompt_date",
    "render",
    "render_probe",
    "render_user",
]

from h2htalk_datasets.prompts.chat_template import fold_system, for_template
from h2htalk_datasets.prompts.prompt_date import PROMPT_DATE, chat_text, prompt_date
from h2htalk_datasets.prompts.rendering import SAP, Principle, principles, render, render_probe, render_user
