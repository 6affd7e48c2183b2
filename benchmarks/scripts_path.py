"""Make the modules of `scripts/` importable: `import scripts_path` before importing one of them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "scripts"))
