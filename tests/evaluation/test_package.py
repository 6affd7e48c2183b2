from __future__ import annotations

import subprocess
import sys


def test_scores_need_neither_torch_nor_models() -> None:
    code = (
        "import sys, deixis.evaluation as scores\n"
        "for name in scores.__all__: getattr(scores, name)\n"
        "assert not {'torch', 'deixis.models'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
