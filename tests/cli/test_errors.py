"""Mistakes in arguments: one line that names the argument, and nothing on standard output."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from deixis.data.dataset import make_dataset
from deixis.data.records import Caption, Photo
from deixis.data.samples import SAMPLES
from tests.cli.conftest import Command

# A command, and what its message names.
MISTAKES = """
describe nowhere.jpg | nowhere.jpg
describe dogs.jpg --region 1,2,3 | 1,2,3
describe dogs.jpg --region 300,10,20,40 | 300,10,20,40
describe dogs.jpg --region 5000,10,6000,40 | 5000,10,6000,40
describe dogs.jpg --bank nowhere.txt | nowhere.txt
describe dogs.jpg --bank empty.txt | empty.txt
describe dogs.jpg --long --bank one.txt | --long
describe dogs.jpg --model nowhere | nowhere
describe dogs.jpg --picture dogs.txt | dogs.txt
describe dogs.jpg --top 0 | --top
describe dogs.jpg --top 99999999999 | --top
ground nowhere.jpg "A dog." | nowhere.jpg
ground dogs.jpg "A dog." --model nowhere | nowhere
ground dogs.jpg "A dog." --picture dogs.txt | dogs.txt
ground dogs.jpg "  " | the sentence is empty
match dogs.jpg --sentences none.txt | none.txt
match dogs.jpg --sentences empty.txt | empty.txt
match dogs.jpg --sentences empty.txt --split dev | --split dev
match dogs.jpg --sentences one.txt --model grounder | similarity
map samples.data --out map.txt | map.txt
map samples.data --out nowhere/map.html | nowhere/map.html
map samples.data --out map.html --split moon | moon
map samples.data --out map.html --model grounder | grounder
map samples.data | --out
index "" | empty path
index "  " | empty path
caption "" | empty path
caption dogs.jpg --beam 1000000 | beam
caption dogs.jpg --top 1000000 | --top
caption dogs.jpg --sample --temperature inf | temperature
caption dogs.jpg --sample --temperature nan | temperature
search dog --top 99999999999 | --top
data import --captions /dev/zero --out new | /dev/zero
data import --out x | --captions FILE or --entities DIR
data import --captions nowhere.json --out x | nowhere.json
data import --captions a --split dev --out x | --split dev
data import --captions a --split dev=b --split dev=c --out x | --split dev is used twice
data import --captions a --captions b --instances c --out x | --instances
data merge a.data b.data --split dev --out both | --split dev: expected NAME=DATA:SPLIT
data merge a.data b.data --split =more:val --out both | --split =more:val
data merge a.data b.data --split dev=more --out both | --split dev=more
data merge a.data b.data --split dev=more:val, --out both | --split dev=more:val,
data merge a.data b.data --split dev=:val --out both | --split dev=:val
data split a.data --out new | --rule NAME
data split a.data --rule imagenet --out new | coco, flickr30k, iapr
data split a.data --rule coco --draw dev=1 --out new | --rule
data split a.data --draw dev=many --out new | dev=many
data show data nobody | nobody
data show samples.data dogs --out dogs.txt | dogs.txt
data stats nowhere | nowhere
data stats | Missing argument 'DATA'
data convert x --to coco --out y | x:
data guess | No such command 'guess'
serve --index nowhere | nowhere
serve --token short | --token
serve --no-token --host 0.0.0.0 | --no-token
serve --port 99999 | 65535
--tpo 5 | No such option
train two-branch --data data --set hidden=1000000000 | hidden
train two-branch --data data --set hidden_size=1000000000 | hidden_size
train two-branch --data data --set learning_rate=inf | learning_rate
train two-branch --data data --set epochs=0 | epochs
evaluate pairs missing.csv --out scores.txt | scores.txt
help nonsense | nonsense
"""


@pytest.fixture(scope="module")
def files(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("errors")
    shutil.copy(SAMPLES / "images" / "dogs.jpg", folder)
    (folder / "empty.txt").write_text("\n \n")
    (folder / "one.txt").write_text("A dog.\n")
    make_dataset(folder / "data", [Photo("1", (Caption.from_text("A dog."),), file="1.jpg", splits=("train",))])
    shutil.copytree(samples, folder / "samples.data")
    return folder


@pytest.mark.parametrize("mistake", MISTAKES.strip().splitlines())
def test_a_mistake_is_one_line_that_names_the_argument(
    mistake: str, files: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    before = sorted(files.iterdir())
    arguments, name = mistake.rsplit(" | ", 1)
    message = command.error(*shlex.split(arguments))
    assert name in message
    assert "internal error" not in message
    assert sorted(files.iterdir()) == before
