"""A finished deck or book takes the place of an earlier one, whole or not at all."""

import os
import shutil
from contextlib import suppress


def put_in_place(*pairs):
    """Rename each new file or folder to its old one's name: all of them, or none where one cannot be.

    The old ones are renamed aside first, since a folder is renamed whole or not at all, and deleted last.
    A link to a folder stays, and the folder is replaced.
    """
    moves = [(new, old, old.with_name(f".{old.name}-old"))
             for new, old in ((new, old.resolve()) for new, old in pairs)]  # fmt: skip
    for _, old, aside in moves:
        try:
            if old.exists():
                remove(aside)     # of a run that was stopped
        except OSError as error:
            raise OSError(f"{aside} is left of an earlier run and cannot be deleted: {error}. Delete it, and "
                          "run this again.") from error
    try:
        exchange(moves)
    except OSError as error:
        raise OSError(f"{pairs[0][1]} cannot be replaced, and stays as it was: {error}. Close what is open "
                      "there, and run this again.") from error
    for _, _, aside in moves:
        with suppress(OSError):     # the next run tries again
            remove(aside)


def exchange(moves):
    """Rename each old one aside and the new one in; undo it where that fails or is stopped."""
    try:
        for new, old, aside in moves:
            if old.exists():
                os.replace(old, aside)
            os.replace(new, old)
    except BaseException:
        for new, old, aside in moves:
            if aside.exists():
                if old.exists():
                    os.replace(old, new)
                os.replace(aside, old)
        raise


def remove(path):
    """Delete a file or folder that may be there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
