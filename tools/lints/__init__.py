"""What every lesson must keep, as small functions: a lesson in, sentences out.

Each rule yields a sentence for each place where a lesson breaks it. The names in
RULES are what the tests call them. `python tools/lint.py NN` prints all findings.
"""

from . import cells, code, numbers, outputs, prose

RULES = {
    rule.__name__: rule
    for module in (cells, code, outputs, prose, numbers)
    for rule in module.RULES
}
