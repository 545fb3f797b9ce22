"""Make untrusted text safe inside a judge's prompt, and otherwise leave it as people see it.

Two kinds of characters change. Those that display nothing are removed: people do not see them, but a model reads them.
What resembles a delimiter of the prompt or a special token of a chat template is altered: runs of angle brackets, angle
brackets before BEGIN or END, ``<|...|>``, ``</s>``, ``[INST]``. A lone ``<3`` or a Chinese book title stays.
"""

__all__ = ["sanitize", "shown_as_before"]

import re
import unicodedata
from functools import cache, lru_cache

_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Displayed as nothing: control and direction characters, fillers, tags. The flags of England, Scotland and Wales are
# written with tags, and variants of Chinese characters with the supplementary selectors.
_HIDDEN = re.compile(
    "(\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f)"
    "|[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    "|(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)
# Joiners, direction marks and variation selectors shape what is displayed (❤️, family emoji, Persian, Hindi). Two in a
# row are enough for that; longer runs can hide a message.
_SHAPING = "\u061c\u180b-\u180d\u180f\u200c-\u200f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_SHAPING_RUN = re.compile(f"([{_SHAPING}]{{2}})[{_SHAPING}]+")

_ANGLES = (
    dict.fromkeys("‹«⋖≮≲≨⟨⟪〈《˂ᐸ❮❰⧼⪡⫷˱⊰𐌂❬⦑", "<")
    | dict.fromkeys("›»⋗≯≳≩⟩⟫〉》˃ᐳ❯❱⧽⪢⫸˲⊱𐌝❭⦒", ">")
    | {"≪": "<<", "≫": ">>", "⋘": "<<<", "⋙": ">>>"}
)
_CHANGED_BEFORE = {*_ANGLES, *"<>[]|\t"}
_BLANK = "\u2800"
_TOKEN_NAMES = r"s|bos|eos|pad|unk|think|im_\w+|(?:start|begin|end)_of_\w+"
_LOOKALIKE = re.compile(
    rf"""
      (?P<open>  <(?:[\s|]*<){{2,}}  |  <[\s|<]*\|  |  <(?:[\s|]*<)*(?=\s*/?\s*(?:begin|end|sys)\b) )
    | (?P<close> >(?:[\s|]*>){{2,}}  |  \|[\s|>]*> )
    | <\s*(?P<token>/?\s*(?:{_TOKEN_NAMES}))\s*>
    | \[\s*(?P<bracket>/?\s*(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w+))\s*\]
    """,
    re.VERBOSE | re.IGNORECASE,
)


@lru_cache(4096)
def sanitize(text: str) -> str:
    """Remove what displays nothing, and alter what resembles a delimiter or a special token.

    Runs of angle brackets become a single ``‹`` or ``›``, ``<s>`` becomes ``‹s›``, ``[INST]`` becomes ``(INST)``, and
    every kind of line break a newline. All other text is returned as it is.
    """
    visible = _HIDDEN.sub(lambda hidden: hidden[1] or "", _LINE_BREAK.sub("\n", text))
    visible = _SHAPING_RUN.sub(r"\1", visible)
    while (altered := _alter_lookalikes(visible)) != visible:  # an altered text may resemble another delimiter
        visible = altered
    return visible


def shown_as_before(text: str) -> bool:
    """Whether version 0.1 showed a judge the same text; it also applied NFKC, and changed brackets and white space."""
    return (
        sanitize(text) == text == text.strip()
        and unicodedata.is_normalized("NFKC", text)
        and "\n\n\n" not in text
        and text.replace("\n", "").isprintable()
        and all(_plain(character) and character not in _CHANGED_BEFORE for character in text)
    )


def _alter_lookalikes(text: str) -> str:
    skeleton, places = _skeleton(text)
    parts, end = [], 0
    for match in _LOOKALIKE.finditer(skeleton):
        parts += [text[end : places[match.start()]], _replacement(match)]
        end = places[match.end() - 1] + 1
    return "".join([*parts, text[end:]])


def _replacement(match: re.Match[str]) -> str:
    if match["token"]:
        return f"‹{match['token']}›"
    if match["bracket"]:
        return f"({match['bracket']})"
    return "‹" if match["open"] else "›"


def _skeleton(text: str) -> tuple[str, list[int]]:
    """The text as a careless reader sees it, and the place in `text` of each of its characters."""
    characters = [(plain, place) for place, character in enumerate(text) for plain in _plain(character)]
    return "".join(plain for plain, _ in characters), [place for _, place in characters]


@cache
def _plain(character: str) -> str:
    """A character without width, style and accents: often one, maybe none; every angle bracket is ``<`` or ``>``."""
    if character == _BLANK:
        return ""
    decomposed = unicodedata.normalize("NFKD", character)
    return "".join(_ANGLES.get(c, c) for c in decomposed if unicodedata.category(c) not in ("Cf", "Mn", "Me"))
