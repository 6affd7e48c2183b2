"""Put a trained model into the package: half precision, without what only its directory needs.

python scripts/ship_model.py MODEL NAME

MODEL is what ``deixis train`` left. `about.json` and `README.md` of the shipped model are written by hand, and stay.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import cast

from deixis.models.saved import StoredModel
from deixis.tasks.bundle import FILE, Bundle, new_bundle
from deixis.tasks.captions.captioning import CaptionBundle
from deixis.tasks.shipped_models import SHIPPED


def load_reader(folder: Path) -> Bundle:
    """A model that reads words itself; vectors of texts are not shipped."""
    bundle = Bundle.load(folder)
    if bundle.text is not None:
        raise SystemExit(f"{folder}: only models that read words themselves are shipped")
    return bundle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("name")
    chosen = parser.parse_args()
    if chosen.name == "m-rnn":
        bundle: Bundle | CaptionBundle = CaptionBundle.load(chosen.model)
    else:
        bundle = load_reader(chosen.model)
    place = SHIPPED / chosen.name
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "model"
        with new_bundle(made) as unfinished:
            bundle.write(unfinished)
            cast(StoredModel, bundle.model).save(unfinished / "model", half=True)
        shutil.copy(made / FILE, place / FILE)
        (place / "model").mkdir(exist_ok=True)
        for file in ("settings.json", "weights.safetensors"):
            shutil.copyfile(made / "model" / file, place / "model" / file)


if __name__ == "__main__":
    main()
