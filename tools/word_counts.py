"""Count the words of the standard library's docstrings, for data/word_counts.csv (card beside it).

    python tools/word_counts.py > data/word_counts.csv

A line that stands in several docstrings counts once. Another release of Python gives other counts.
"""

import ast
import collections
import pathlib
import re
import sys
import sysconfig
import warnings

NOT_READ = {"site-packages", "test", "tests", "idlelib", "lib2to3", "pydoc_data"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(folder):
    for path in sorted(folder.rglob("*.py")):
        if not NOT_READ & set(path.relative_to(folder).parts):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, DOCUMENTED):
                    yield ast.get_docstring(node) or ""


def main():
    warnings.simplefilter("ignore")  # of escapes in the sources that are read
    texts = docstrings(pathlib.Path(sysconfig.get_path("stdlib")))
    lines = {line for text in texts for line in text.split("\n")}
    counts = collections.Counter()
    for line in lines:
        counts.update(re.findall(r"\b[a-z]+(?:'[a-z]+)?\b", line.lower(), re.ASCII))
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        sys.stdout.write(f"{word},{count}\n")


if __name__ == "__main__":
    main()
