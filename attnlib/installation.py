"""Is everything there that the course needs? Standard library only: it must run where things are missing."""

import importlib.metadata
import json
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_FONT = _HERE / "plots" / "fonts" / "AttnSansSC-Regular.ttf"

OLDEST_PYTHON = (3, 11)
PACKAGES = {  # as people call it -> module, what pip is to be told
    "NumPy": ("numpy", "numpy>=2.1"),
    "array-api-compat": ("array_api_compat", "array-api-compat>=1.9"),
    "Matplotlib": ("matplotlib", "matplotlib>=3.10"),
    "Pillow": ("PIL", "pillow>=10"),
    "platformdirs": ("platformdirs", "platformdirs>=4"),
    "filelock": ("filelock", "filelock>=3.12"),
    "PyTorch": ("torch", "torch>=2.13,<3"),
}


def check_installation():
    """What the course needs, a line each: ready, or what is wrong and what to type.

    Packages are looked for and not imported, so that the check is quick and loads no PyTorch. Versions
    are told only where they are too old; on every sound machine the text is the same.

    Returns
    -------
    str
        Lines for Python, each package, the data and the font, and a last line that sums up.

    Raises
    ------
    Nothing. What cannot be looked at is a line too.

    Examples
    --------
    >>> print(check_installation().splitlines()[0])
    Python            ready
    """
    checks = {
        "Python": (_python,),
        **{name: (_package, *need) for name, need in PACKAGES.items()},
        "data": (_data, (_HERE / "data", _HERE.parent / "data")),
        "font": (_font, _FONT),
    }
    problems = {name: _told(*check) for name, check in checks.items()}
    wide = max(map(len, problems)) + 2
    lines = [f"{name:{wide}}{problem or 'ready'}" for name, problem in problems.items()]
    wrong = sum(map(bool, problems.values()))
    last = f"{wrong} of {len(problems)} need a hand; restart the kernel when it is done."
    return "\n".join([*lines, last if wrong else "All is there."])


def _told(check, *arguments):
    try:
        return check(*arguments)
    except Exception as error:
        return f"could not be looked at: {type(error).__name__}: {error}"


def _python():
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return ""
    found, oldest = (".".join(map(str, part)) for part in (sys.version_info[:3], OLDEST_PYTHON))
    return (
        f"{found} is too old, {oldest} or newer is needed. With a newer one, in the course's folder: "
        "python3 course.py lab"
    )


def _package(module, requirement):
    command = f'run in a cell: %pip install "{requirement}"'
    # Not importlib.util.find_spec: this looks at sys.path alone and runs no other package's finder.
    spec = PathFinder.find_spec(module)
    if spec is None or spec.origin is None:  # without an origin it is a folder that bears the name
        return f"missing; {command}"
    name, oldest = re.fullmatch(r"([\w-]+)>=([\d.]+).*", requirement).groups()
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # built from source; it tells no version
        return ""
    return "" if _numbers(found) >= _numbers(oldest) else f"{found} is too old; {command}"


def _numbers(version):
    """The release of a version: (2, 13, 0) for 2.13.0+cpu."""
    return tuple(int(part) for part in re.match(r"\d+(?:\.\d+)*", version)[0].split("."))


def _data(places):
    """Each file that the table in data/README.md names is there, and whole where that can be told."""
    again = "in the course's folder run: git checkout -- data (or get the course anew)"
    folder = next((place for place in places if place.is_dir()), None)
    table = folder / "README.md" if folder else None
    if table is None or not table.is_file():
        return f"missing; {again}"
    for name in re.findall(r"(?m)^\| `([^`]+)` \|", table.read_text(encoding="utf-8")):
        file = folder / name
        if not file.is_file() or not file.stat().st_size:
            return f"{name} is missing; {again}"
        if file.suffix == ".json":
            try:
                json.loads(file.read_text(encoding="utf-8"))
            except ValueError:
                return f"{name} is damaged; {again}"
    return ""


def _font(file):
    again = "in the course's folder run: git checkout -- attnlib (or get the course anew)"
    if not file.is_file():
        return f"missing; {again}"
    with file.open("rb") as font:
        return "" if font.read(4) == b"\0\1\0\0" else f"damaged; {again}"
