"""Settings of the book: Sphinx reads what pages.py wrote, with the outputs stored in the notebooks."""

from book import excerpts
from book.words import EnglishAndChinese

project = "Self-attention, from a dictionary to long contexts"
author = "The attnlib authors"
project_copyright = "The attnlib authors. Code under MIT, text and figures under CC BY 4.0"

extensions = ["myst_nb"]
nb_execution_mode = "off"
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_mime_priority_overrides = [("html", "text/html", 0), ("html", "image/png", 10), ("html", "text/plain", 20)]

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["static"]
html_favicon = "static/favicon.svg"
templates_path = ["templates"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_theme_options = {
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "article_header_end": ["notebook.html", "article-header-buttons.html"],
    "footer_content_items": ["copyright.html"],
    "pygments_dark_style": "github-dark",  # in the theme's own style the comments shine brightest
    "navbar_end": [],
    "navbar_persistent": [],
    "primary_sidebar_end": [],
}
html_context = {"default_mode": "auto"}
html_permalinks = False
html_show_sphinx = False
html_use_index = False  # of functions, and the book documents none
html_sourcelink_suffix = ""

# MathJax lies in the book itself. This is its second version, as in the decks.
mathjax_path = "mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full"
mathjax2_config = {
    "messageStyle": "none",
    "showMathMenu": False,
    "HTML-CSS": {
        "availableFonts": [],
        "webFont": "STIX-Web",
        "imageFont": None,
        # MathJax's own placeholder font is a request that browsers refuse, with an error.
        "styles": {"@font-face": {"font-family": "MathJax_Blank", "src": "local('MathJax_Blank')"}},
    },
    # Formulas begin where the text does, as on the slides.
    "displayAlign": "left",
    "displayIndent": "1.5em",
    "TeX": {"noErrors": {"disabled": True}, "noUndefined": {"disabled": True}},
    # Both would draw each formula a second time, with fonts that are not here.
    "fast-preview": {"disabled": True},
    "AssistiveMML": {"disabled": True},
    "tex2jax": {
        "inlineMath": [["\\(", "\\)"]],
        "displayMath": [["\\[", "\\]"]],
        "processClass": "tex2jax_process|mathjax_process|math|output_area",
        "ignoreClass": ".*",
    },
}
mathjax_options = {"defer": "defer"}


def setup(app):
    app.add_search_language(EnglishAndChinese)
    excerpts.setup(app)
