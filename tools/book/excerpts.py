"""The words of every page in one script, from which the search shows those around what it found.

Sphinx's search would fetch the pages themselves, which a browser refuses to a page from a file.
"""

import html
import json
from pathlib import Path

from docutils import nodes

SCRIPT = """const PAGES = %s;
window.fetch = async (address) => new Response(PAGES[address.split("/").pop()]);

// Sphinx looks for the stems of what was asked, and a text has words: "rotari" stands in none.
const summary = Search.makeSearchSummary;
const asked = (new URLSearchParams(location.search).get("q") || "").split(/\\s+/).filter(Boolean);
Search.makeSearchSummary = (page, stems, anchor) => summary(page, [...stems, ...asked], anchor);
"""


def setup(app):
    pages = {}
    app.connect("doctree-resolved", lambda app, tree, name: pages.update({f"{name}.html": words(tree)}))
    app.connect("build-finished", lambda app, error: write(app, pages))


def words(tree):
    """A page's words, in the elements by which the search finds a page and a section of it."""
    return f'<div role="main">{within(tree)}</div>'


def within(node):
    if isinstance(node, nodes.section):
        return f'<section id="{node["ids"][0]}">{inner(node)}</section>'
    if isinstance(node, nodes.raw | nodes.comment | nodes.thead):
        return ""
    return inner(node) if node.children else html.escape(node.astext())


def inner(node):
    separator = "" if isinstance(node, nodes.TextElement) else " · " if isinstance(node, nodes.row) else " "
    return separator.join(map(within, node.children))


def write(app, pages):
    text = json.dumps(pages, ensure_ascii=False, sort_keys=True)
    Path(app.outdir, "_static", "excerpts.js").write_text(SCRIPT % text, encoding="utf-8")
