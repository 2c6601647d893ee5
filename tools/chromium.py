"""Where this machine has Chromium or Chrome, and what brings one."""

import shutil
import sys
from pathlib import Path

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# On these systems the browser is not on the path.
PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
          "/Applications/Chromium.app/Contents/MacOS/Chromium",
          "C:/Program Files/Google/Chrome/Application/chrome.exe")


def find_browser():
    """The path of Chromium or Chrome, or None."""
    found = next(filter(None, map(shutil.which, COMMANDS)), None)
    return found or next((place for place in PLACES if Path(place).exists()), None)


def browser_command():
    """What brings a browser, for a sentence."""
    if sys.platform == "darwin":
        return "brew install --cask chromium"
    if sys.platform.startswith("linux") and shutil.which("apt-get"):
        return "sudo apt-get install chromium"
    return "install Chromium or Chrome so that one of these is found: " + ", ".join(COMMANDS)
