"""The elements of an HTML page."""

from html.parser import HTMLParser


class _Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def elements_of(page: str) -> list[tuple[str, dict]]:
    """Name and attributes of every start tag, in their order."""
    parser = _Elements()
    parser.feed(page)
    return parser.found
