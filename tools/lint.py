"""Print what lessons break of the rules in tools/lints.

    python tools/lint.py [NN ...]
"""

import sys

import lesson
from lints import RULES


def main(numbers):
    try:
        paths = lesson.find(numbers)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    broken = 0
    for path in paths:
        read = lesson.read(path)
        for name, rule in RULES.items():
            for problem in rule(read):
                broken += 1
                print(f"{read.number} {name}: {problem}")
    print(f"{broken} findings in {len(paths)} lessons.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
