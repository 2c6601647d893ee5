"""The words of every page in one script: the search orders what it found by them, and shows those around.

Sphinx's search would fetch the pages themselves, which a browser refuses to a page from a file.
"""

import html
import json
from pathlib import Path

from docutils import nodes

SCRIPT = r"""const PAGES = %s;
window.fetch = async (address) => new Response(PAGES[address.split("/").pop()]);

// Sphinx looks for the stems of what was asked, and a text has words: "rotari" stands in none.
const asked = splitQuery(new URLSearchParams(location.search).get("q") || "");
// The words one after the other, joined or not: "flash attention" is FlashAttention too.
const phrase = new RegExp(asked.join("[^\\p{L}\\p{N}]*"), "giu");
const said = (text) => text.replace(/<[^>]*>/g, " ").match(phrase) || [];

const summary = Search.makeSearchSummary;
Search.makeSearchSummary = (page, stems, anchor) =>
  summary(page, [...stems, ...asked, ...said(page).slice(0, 1)], anchor);

// Sphinx goes by a page's best word: any heading with "attention" will do for "flash attention". Before that
// counts whether the file of a lesson has the name that was asked for, and then how often a page says it.
Scorer.score = ([page, , , , score]) =>
  1000 * said(page).length + said(PAGES[`${page}.html`]).length + score / 100;

// Sphinx would mark what was asked in whatever page is opened next. Here it is one of those that were found.
const MARKED = "sphinx_highlight_terms";
const parse = Search._parseQuery;
Search._parseQuery = (query) => {
  const parsed = parse(query), words = localStorage.getItem(MARKED);
  localStorage.removeItem(MARKED);
  for (const press of ["click", "auxclick"])
    Search.output.addEventListener(press, () => localStorage.setItem(MARKED, words));
  return parsed;
};
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
