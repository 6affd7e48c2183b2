"""Put a trained model into the package: half precision, without what only its directory needs.

python scripts/ship_model.py MODEL NAME

MODEL is what ``deixis train`` left. `about.json` and `README.md` of the shipped model are written by hand, and stay.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from deixis.models.saved import StoredModel
from deixis.tasks.bundle import FILE, Bundle, new_bundle
from deixis.tasks.shipped_models import SHIPPED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("name")
    chosen = parser.parse_args()
    bundle = Bundle.load(chosen.model)
    if bundle.text is not None or not isinstance(bundle.model, StoredModel):
        raise SystemExit(f"{chosen.model}: only models that read words themselves are shipped")
    place = SHIPPED / chosen.name
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "model"
        with new_bundle(made) as unfinished:
            bundle.write(unfinished)
            bundle.model.save(unfinished / "model", half=True)
        shutil.copy(made / FILE, place / FILE)
        (place / "model").mkdir(exist_ok=True)
        for file in ("settings.json", "weights.safetensors"):
            shutil.copyfile(made / "model" / file, place / "model" / file)


if __name__ == "__main__":
    main()
