"""Train the region describer: CCA of regions and phrases, the phrase bank, and calibrated scores.

python scripts/train_describer.py DATA [--model DIR] [--out DIR]

DATA needs boxes and the splits train and dev. The model and the bank are trained on train; the prior and the scale of
the scores are chosen on dev and evaluated by cross-validation over photos.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from describer_calibration import encode_gold_regions, fit_settings
from phrase_counts import MIN_COUNT, count_phrases
from ship_model import ship

from deixis.data.dataset import Dataset
from deixis.language.features.base import TfIdf
from deixis.models.cca.model import CCA, blocks
from deixis.models.describer.description import DESCRIBER, Describer
from deixis.models.grounding import load_embedding_model
from deixis.models.installed import SHIPPED
from deixis.models.matching.model import MatchingPipeline
from deixis.models.training.data import MatchingDataSettings, read_photos
from deixis.models.training.regions import region_set
from deixis.models.training.runner import provenance_of

COMPONENTS = 64
"""256 components give one point more R@5, but a model four times as large."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, help="only evaluate an already trained model of phrases and regions")
    parser.add_argument("--out", type=Path, default=SHIPPED / DESCRIBER)
    parser.add_argument("--components", type=int, default=COMPONENTS, help="embedding dimension")
    chosen = parser.parse_args()
    dataset = Dataset(chosen.data)
    pipeline = load_embedding_model(chosen.model) if chosen.model else _fit_cca(dataset, chosen.components)
    bank = count_phrases(dataset.split("train"))
    print(f"{len(bank):,} phrases")
    describer = Describer(pipeline, bank)
    gold = encode_gold_regions(describer, pipeline.features(dataset, dataset.split("dev")).require_all())
    settings, scores = fit_settings(describer, gold, on_trial=lambda prior, found: print(f"prior {prior}: {found}"))
    print(f"chosen: {settings}\ncross-validated: {scores}")
    if chosen.model:
        return
    pipeline.describer_part = Describer(pipeline, bank, settings).to_artifact()
    ship(pipeline, chosen.out)


def _fit_cca(dataset: Dataset, components: int) -> MatchingPipeline:
    """Fit CCA to the gold regions and phrases of train."""
    data = MatchingDataSettings(train_on="phrases", location_weight=10.0)
    seen = read_photos(dataset, dataset.split(data.train_split), data.feature_source)
    regions = region_set(seen, data, gold_only=True)
    pairs = regions.pairs
    features = TfIdf(MIN_COUNT).fit([pairs.phrases[phrase] for phrase in pairs.phrase])
    text = features.transform(pairs.phrases)
    region_rows = (regions.vectors[pairs.gold[pairs.chain[block]]].astype("float32") for block in blocks(len(pairs)))
    text_rows = (text[pairs.phrase[block]] for block in blocks(len(pairs)))
    model = CCA(components).fit_blocks(zip(region_rows, text_rows, strict=True))
    return MatchingPipeline(model, provenance_of(data, data.train_on, seen), features)


if __name__ == "__main__":
    main()
