"""The text of the whole repository: readable everywhere, and naming nobody's machine."""

import ast
import os
import re
import subprocess
import sys
from urllib.parse import unquote

import lesson
import pytest

ROOT = lesson.ROOT
BINARY = {".png", ".jpg", ".npz", ".npy", ".ttf", ".otf", ".woff2", ".pdf", ".gz", ".ico"}
# Letters in brackets, so that this file does not name what it looks for.
REGISTRIES = (
    r"py[p]i\.org|python[h]osted\.org|registry\.(?:n[p]mjs|yarn[p]kg)|download\.py[t]orch\.org"
    r"|conda\.ana[c]onda\.org|deb\.de[b]ian\.org"
)
MACHINE = r"(?<![\w.~$}])/(?:root|home|Users|work/(?:main|shared))/\w"
TEMPORARY = r"(?<![\w.~$}])/tmp\b"


def tracked():
    """The repository's files; all but hidden and built ones where git cannot tell."""
    git = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if git.returncode == 0 and git.stdout:
        names = git.stdout.decode("utf-8").split("\0")
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    built = {"work", "slides", "figures", "site", "__pycache__"}
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(ROOT).parts[:-1])
        and not built & set(path.relative_to(ROOT).parts)
    ]


FILES = [path for path in tracked() if path.suffix not in BINARY]
PYTHON = [path for path in FILES if path.suffix == ".py"]
MARKDOWN = [path for path in FILES if path.suffix == ".md"]
SOURCES = [str(path) for path in FILES if path.suffix in (".py", ".ipynb")]


def name(path):
    return path.relative_to(ROOT).as_posix()


def text(path):
    return path.read_bytes().decode("utf-8")


def lines_with(pattern, source):
    return [line.strip()[:120] for line in source.splitlines() if re.search(pattern, line)]


def test_git_tells_the_files():
    assert ROOT / "pyproject.toml" in FILES


@pytest.mark.parametrize("path", FILES, ids=name)
def test_utf8_without_mark_and_with_plain_line_ends(path):
    data = path.read_bytes()
    data.decode("utf-8")
    assert not data.startswith(b"\xef\xbb\xbf"), "it starts with a byte order mark"
    assert b"\r" not in data, "it has line ends other than LF"


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix in (".py", ".md")], ids=name)
def test_lines_end_cleanly(path):
    source = text(path)
    assert not lines_with(r"[ \t]+$", source), "spaces at the end of a line"
    assert not source or source.endswith("\n") and not source.endswith("\n\n"), "its last line"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_names_no_machine_and_no_registry(path):
    source = re.sub(r'"image/\w+": "[^"]*"', "", text(path))  # base64 may spell anything
    assert not lines_with(REGISTRIES, source), "it holds the address of a package registry"
    assert not lines_with(MACHINE, source), "it names a folder of one machine"
    # The sandbox has a /tmp of its own, whatever the machine's is.
    if "tests" not in path.parts and path.name not in ("sandbox.py", "probe.py"):
        assert not lines_with(TEMPORARY, source), "it names a temporary folder"


# Reading and writing text


def unencoded(source):
    """The lines of a Python source that open text without saying how it is encoded."""
    return [call.lineno for call in ast.walk(ast.parse(source)) if _opens_text(call)]


def _opens_text(node):
    if not isinstance(node, ast.Call) or any(word.arg == "encoding" for word in node.keywords):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "open" and not _binary(node, place=1)
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "read_text":
        return not node.args
    if node.func.attr == "write_text":
        return len(node.args) < 2
    # Other objects have an `open` too; a path's takes nothing, or a mode, first.
    mode = node.args[0] if node.args else ast.Constant("r")
    is_mode = isinstance(mode, ast.Constant) and re.fullmatch(r"[rwaxbt+]+", str(mode.value))
    return node.func.attr == "open" and bool(is_mode) and not _binary(node, place=0)


def _binary(call, place):
    modes = [word.value for word in call.keywords if word.arg == "mode"] + call.args[place:][:1]
    return any(isinstance(mode, ast.Constant) and "b" in str(mode.value) for mode in modes)


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_text_is_opened_as_utf8(path):
    assert not unencoded(text(path)), "lines that open text without encoding="


@pytest.mark.parametrize(
    "source",
    ["open(p)", "open(p, 'w')", "p.read_text()", "p.write_text(x)", "p.open()", "p.open('w')"],
)
def test_text_opened_without_encoding_is_found(source):
    assert unencoded(source) == [1]


@pytest.mark.parametrize(
    "source",
    [
        "open(p, encoding='utf-8')",
        "open(p, 'rb')",
        "open(p, mode='wb')",
        "p.read_text('utf-8')",
        "p.read_text(encoding='utf-8')",
        "p.write_text(x, encoding='utf-8')",
        "p.open('rb')",
        "webbrowser.open(url)",
        "zipfile.open('a.txt')",
    ],
)
def test_text_opened_rightly_passes(source):
    assert unencoded(source) == []


# Links


def dead_links(path, source):
    """The targets of links in Markdown that lead to no file."""
    targets = re.findall(r"\]\(([^)\s]+)[^)]*\)|(?:src|href)=\"([^\"]+)\"", source)
    for target in (first or second for first, second in targets):
        file = unquote(target.split("#")[0])
        outside = re.match(r"[a-z]+:", target)
        if file and not outside and not (path.parent / file).exists():
            yield target


@pytest.mark.parametrize("path", MARKDOWN, ids=name)
def test_links_lead_somewhere(path):
    assert not list(dead_links(path, re.sub(r"(?s)```.*?```|`[^`\n]*`", "", text(path))))


def test_a_dead_link_is_found():
    source = "[a](no.md#x) [b](conftest.py) [c](https://a.b) [d](#e) <img src=\"no.png\">"
    assert list(dead_links(ROOT / "x.md", source)) == ["no.md#x", "no.png"]


# Other people's lints


def check(*command):
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff():
    check("ruff", "check", "--no-cache", "--quiet", *SOURCES)


def test_codespell(tmp_path):
    """The words of notebooks are laid out as text: in the files they stand beside pictures."""
    words = [str(path) for path in FILES if path.suffix in (".py", ".md", ".toml", ".yml", ".cff")]
    for path in lesson.lesson_paths():
        copy = tmp_path / f"{path.stem}.txt"
        copy.write_text("\n".join(c.source for c in lesson.read(path).cells), encoding="utf-8")
        words.append(str(copy))
    check("codespell_lib", *words)
