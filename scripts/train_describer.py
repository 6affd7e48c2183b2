"""Make the model that describes regions: CCA of regions and phrases, the phrase bank, and scores that are chances.

python scripts/train_describer.py DATA [--model DIR] [--out DIR]

DATA needs boxes and the splits train and dev. Model and bank are learned from train; the prior and the scale of the
scores are chosen on dev, and judged there by cross-validation over photos. Everything is printed.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import cast

from deixis.data.dataset import Dataset
from deixis.language.features.tfidf import TfIdf
from deixis.models.cca import CCA, blocks
from deixis.tasks.bundle import FILE, Bundle, EncoderOfBundle
from deixis.tasks.describe.describing import BANK, DEFAULT, SETTINGS, Describer
from deixis.tasks.describe.fit_describer import fit_settings, said_of_regions
from deixis.tasks.describe.phrase_bank import LEAST, PhraseBank
from deixis.tasks.fit.cca import learned_from
from deixis.tasks.fit.chosen import PLACE
from deixis.tasks.learning import Learning, see_photos
from deixis.tasks.regions_of import region_set
from deixis.tasks.scores.scoring import seen_photos
from deixis.tasks.shipped_models import SHIPPED

COMPONENTS = 64
"""With 256 the model is four times as large, and one point better at R@5 where the prior counts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, help="only judge a model of phrases and regions that is trained already")
    parser.add_argument("--out", type=Path, default=SHIPPED / DEFAULT)
    parser.add_argument("--components", type=int, default=COMPONENTS, help="numbers in the vectors of regions")
    chosen = parser.parse_args()
    dataset = Dataset(chosen.data)
    bundle = Bundle.load(chosen.model) if chosen.model else _fitted(dataset, chosen.components)
    bank = PhraseBank.of_photos(dataset.split("train"))
    print(f"{len(bank):,} phrases")
    describer = Describer(bundle, bank)
    gold = said_of_regions(describer, seen_photos(bundle, dataset, dataset.split("dev")).require_all())
    settings, judged = fit_settings(describer, gold, on_trial=lambda prior, found: print(f"prior {prior}: {found}"))
    print(f"chosen: {settings}\ncross-validated: {judged}")
    if chosen.model:
        return
    _write(bundle, chosen.out)
    bank.save(chosen.out / BANK)
    settings.save(chosen.out / SETTINGS)


def _fitted(dataset: Dataset, components: int) -> Bundle:
    """CCA of the gold regions and phrases of train, with only the words that occur among these phrases."""
    learning = Learning(learn="phrases", place=PLACE)
    seen = see_photos(dataset, dataset.split(learning.train), learning)
    regions = region_set(seen, learning, gold_only=True)
    pairs = regions.pairs
    features = TfIdf(LEAST).fit([pairs.phrases[phrase] for phrase in pairs.phrase])
    text = features.transform(pairs.phrases)
    seen_rows = (regions.vectors[pairs.gold[pairs.chain[block]]].astype("float32") for block in blocks(len(pairs)))
    read_rows = (text[pairs.phrase[block]] for block in blocks(len(pairs)))
    model = CCA(components).fit_blocks(zip(seen_rows, read_rows, strict=True))
    made_by = seen.store.contents
    encoder = EncoderOfBundle(made_by.encoder, made_by.fingerprint)
    return Bundle(encoder, features, model, learned_from(learning, seen))


def _write(bundle: Bundle, out: Path) -> None:
    """In half precision, beside a card that was written by hand."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "model"
        bundle.save(made)
        cast(CCA, bundle.model).save(made / "model", half=True)
        for file in (FILE, "text/idf.npy", "text/saved.json", "model/settings.json", "model/weights.safetensors"):
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made / file, out / file)


if __name__ == "__main__":
    main()
