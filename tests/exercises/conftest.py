"""So that tests can import the table of adapters beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
