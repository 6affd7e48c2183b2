from __future__ import annotations

import subprocess
import sys

import pytest

from deixis import evaluation


def test_scores_need_neither_torch_nor_models() -> None:
    code = (
        "import sys, deixis.evaluation as scores\n"
        "for name in scores.__all__: getattr(scores, name)\n"
        "assert not {'torch', 'deixis.models'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        evaluation.nothing  # noqa: B018
