"""What shuts readers out of a page, by axe-core."""

from axe_playwright_python.sync_playwright import Axe

SERIOUS = ("serious", "critical")
# Without fetching the styles anew, which a browser refuses to a page from a file.
RULES = {"resultTypes": ["violations"], "preload": False}

# Words of one kind have one colour. axe takes a hundredth of a second for each of the thousands of words of
# code and letters of formulas, so it is shown the first of each kind.
FIRST_OF_EACH_KIND = """() => {
  const seen = new Set();
  for (const word of document.querySelectorAll("pre span")) {
    const kind = word.className + !!word.closest(".cell_input, .code");
    if (seen.has(kind)) word.replaceWith(...word.childNodes);
    seen.add(kind);
  }
  for (const code of document.querySelectorAll("pre")) code.normalize();
  for (const formula of document.querySelectorAll(".MathJax")) {
    const {color} = getComputedStyle(formula);
    if (seen.has(color)) formula.remove();
    seen.add(color);
  }
}"""


def faults(page, place_of=lambda selector: None, only=None):
    """The serious and critical faults of what `page` shows, as pairs of a place and a sentence.

    ``place_of`` says where an element is, by its selector: one sentence a place. ``only`` names the rules
    to judge by, all of them when left out. The page is left without the formulas and the colours of code
    that another of their kind stands for.
    """
    page.evaluate(FIRST_OF_EACH_KIND)
    found = []
    options = RULES if only is None else {**RULES, "runOnly": only}
    for fault in Axe().run(page, options=options).response["violations"]:
        if fault["impact"] in SERIOUS:
            places = {}
            for node in fault["nodes"]:
                places.setdefault(place_of(node["target"][0]), []).append(node["html"][:90])
            found += [(place, f"{fault['help']} ({len(nodes)} times: {'; '.join(nodes[:3])})")
                      for place, nodes in places.items()]  # fmt: skip
    return found
