"""Runs in a lesson's kernel: keeps each figure that the lesson shows, in files of its own."""

import json
from pathlib import Path

from gallery import drawing

from attnlib.plots import notebook


def record(folder, lesson, judged):
    """From now on write each figure as it is shown: 0.svg, 0.png, 0.json, 1.svg, ... in `folder`.

    ``lesson`` is its heading. The JSON file holds the title, and what the check finds if the
    figures are to be `judged`.
    """
    if judged:
        from gallery import judge
    folder, shown, count = Path(folder), notebook.picture, 0

    def picture(fig, alt):
        nonlocal count
        stored = shown(fig, alt)        # first, since it refuses what is no figure
        words = stored[0]["text/plain"]
        for make in (drawing.svg, drawing.png):
            (folder / f"{count}.{make.__name__}").write_bytes(make(fig, words, lesson))
        about = {"title": drawing.title(fig), "findings": judge.findings(fig) if judged else []}
        (folder / f"{count}.json").write_text(json.dumps(about), encoding="utf-8")
        count += 1
        return stored

    notebook.picture = picture
