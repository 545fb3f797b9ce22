"""Results as tables, Markdown, HTML and SVG."""
