"""`report.html`: a scored run as one page that needs nothing but itself."""

from h2htalk_metric.reports.html.page import Section, html

__all__ = ["Section", "html"]
