"""Tag one caption of each photo with a spaCy pipeline, for ``scripts/train_tagger.py``.

python scripts/silver_tags.py DATA silver.jsonl --keep-out Flickr_8k.devImages.txt

Needs spaCy and a pipeline (``pip install spacy``, ``python -m spacy download en_core_web_md``).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from train_chunker import check_kept_out

from deixis.data.dataset import Dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--keep-out", type=Path, required=True)
    parser.add_argument("--pipeline", default="en_core_web_md")
    args = parser.parse_args()

    import spacy
    from spacy.tokens import Doc

    photos = list(Dataset(args.data).split(args.split))
    check_kept_out([photo.id for photo in photos], args.keep_out)
    nlp = spacy.load(args.pipeline, disable=["parser", "ner", "lemmatizer"])
    # A different caption number for each photo, so that no author has more weight.
    chosen = [(photo.id, photo.captions[number % len(photo.captions)]) for number, photo in enumerate(photos)]
    documents = ((Doc(nlp.vocab, words=[token.text for token in caption.tokens]), id_) for id_, caption in chosen)
    with args.out.open("w", encoding="utf-8") as out:
        for document, photo_id in nlp.pipe(documents, as_tuples=True):
            tokens, tags = [token.text for token in document], [token.tag_ for token in document]
            out.write(json.dumps([photo_id, tokens, tags], ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
