"""`graftax inspect --html`: one page about a model, which needs no network and no server.

- `page.py`: the page, made of a `ModelReport` and of graphs.
- `graph_data.py`: the graphs as JSON, which the page's script shows by scopes.
- `report.css`, `report.js`: style, for light and dark, and script.
"""

from graftax.tools.inspection.html.page import html_report

__all__ = ["html_report"]
