"""`deixis match`: the sentences of a file or a data set that fit a photo best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from deixis.cli.output import Json, argument, hint, option, print_json, working
from deixis.errors import DeixisError


def match(
    photo: Annotated[Path, argument("PHOTO", "Photo file.")],
    sentences: Annotated[
        Path, option("FILE|DATA", "Text file with a sentence per line, or a data set directory.", show_default=False)
    ],
    split: Annotated[str | None, option("NAME", "Of a data set: only sentences of this split.")] = None,
    top: Annotated[int, option("N", "Maximum number of sentences.", min=1)] = 10,
    model: Annotated[str, option("NAME|DIR", "Model: a name from deixis models, or a directory.")] = "two-branch",
    json: Json = False,
) -> None:
    """Find the sentences that fit a photo best, such as captions of other photos.

    The score of a sentence is its similarity to the photo, or for captioner and m-rnn the logarithm of how many times
    more probable the photo makes it. Compare scores of the same photo and model only.
    """
    from deixis.data.images import open_photo
    from deixis.models.pipeline import load

    with working("comparing sentences"):
        texts = _read_sentences(sentences, split)
        opened = open_photo(photo)
        pipeline = load(model)
        found = pipeline.match(opened, texts, top=top)
    if json:
        sentences_found = [{"text": text, "score": score} for text, score in found]
        print_json({"photo": str(photo), "score": pipeline.match_score, "sentences": sentences_found})
        return
    for text, score in found:
        print(f"{score:.3f}  {text}")
    hint(f"score: {pipeline.match_score}")


def _read_sentences(path: Path, split: str | None) -> list[str]:
    """Return the distinct sentences of a data set or a text file, in their order."""
    if path.is_dir():
        from deixis.data.dataset import Dataset
        from deixis.evaluation.items import sentences_of

        dataset = Dataset(path)
        texts = list(sentences_of(dataset.split(split) if split else dataset.photos).texts)
    elif split:
        raise DeixisError(f"--split {split}: {path} is not a data set directory")
    else:
        try:
            texts = path.read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            raise DeixisError(f"{path}: cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise DeixisError(f"{path}: not a text file in UTF-8") from None
    found = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if not found:
        raise DeixisError(f"{path}: has no sentences")
    return found
