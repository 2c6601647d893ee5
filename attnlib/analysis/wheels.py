"""Files of trained models that lie in optional packages: found without an import, and checked."""

import hashlib
import importlib.util
from pathlib import Path


def installed_folder(module, *readers):
    """The folder of an installed module, or None where it, or a module that reads its files, is missing."""
    if not all(map(importlib.util.find_spec, (module, *readers))):
        return None
    return Path(importlib.util.find_spec(module).origin).parent


def check_file(file, sha256, module):
    """Raise ValueError where a module's file is not the one that was tested."""
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != sha256:
        raise ValueError(f"{file.name} of {module} must have the SHA-256 {sha256}; it has {found}")
