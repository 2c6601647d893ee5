"""So that tests can import what the tests of efficient forms draw."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "efficient"))
