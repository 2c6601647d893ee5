"""So that tests can import what they draw beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
