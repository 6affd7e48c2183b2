"""Flickr30k Entities (Plummer, Wang, Cervantes, Caicedo, Hockenmaier and Lazebnik, ICCV 2015): Tables 1 to 5."""

from __future__ import annotations

from deixis.experiments.records import Claim, Column, Part, Recipe, Table, Training, recalls, rows_of

PAPER = "Plummer et al., Flickr30k Entities (ICCV 2015)"
DATA = ("Flickr30k",)

_BOTH_WAYS = recalls({"i2t": "i→s", "t2i": "s→i"}, ["r1", "r5", "r10"])

_COUNTS = (
    Column("chains", "chains", decimals=0),
    Column("mentions_per_chain", "mentions per chain", decimals=2),
    Column("boxes_per_chain", "boxes per chain", decimals=2),
)
_TYPES = ("people", "clothing", "bodyparts", "animals", "vehicles", "instruments", "scene", "other")

TABLE_1 = Table(
    "entities-1",
    "Coreference chains by type",
    f"{PAPER}, Table 1",
    DATA,
    _COUNTS,
    rows_of(
        _COUNTS,
        Part(recipes={name: Recipe("statistics", group=name) for name in (*_TYPES, "total")}),
        """
        people | people | 59766 3.17 1.95
        clothing | clothing | 42380 1.76 1.44
        bodyparts | body parts | 12809 1.50 1.42
        animals | animals | 5086 3.63 1.44
        vehicles | vehicles | 5561 2.77 1.21
        instruments | instruments | 1827 2.85 1.61
        scene | scene | 46919 2.03 0.62
        other | other | 82098 1.94 1.04
        total | total | 244034 2.25 1.27
        """,
    ),
    needs=("boxes",),
)

_SIZES = (Column("pairs", "pairs", decimals=0),)

TABLE_2 = Table(
    "entities-2",
    "Sizes of the region–phrase training sets",
    f"{PAPER}, Table 2",
    DATA,
    _SIZES,
    rows_of(
        _SIZES,
        Part(
            recipes={
                name: Recipe("set-sizes", group=name)
                for name in ("chunks", "chunks-1", "chunks-10", "augmented", "augmented-1", "augmented-10")
            }
        ),
        """
        chunks | All NP chunks | 427356
        chunks-1 | Resampled, N = 1 | 54903
        chunks-10 | Resampled, N = 10 | 119381
        augmented | All augmented phrases | 817716
        augmented-1 | Resampled, N = 1 | 101124
        augmented-10 | Resampled, N = 10 | 231317
        """,
    ),
    needs=("boxes", "train"),
    notes=("The paper prints the third size as 11,9381.",),
)


def _cca(row: str, auxiliary: Training | None = None) -> Training:
    return Training("cca", f"papers/cca-{row}", repeated=False, auxiliary=auxiliary)


WHOLE = _cca("sentences")
LOCAL = _cca("augmented-10")
"""The model of Tables 4 and 5, and of the regions and phrases of the weighted distance."""

STACKED = _cca("sentences", auxiliary=LOCAL)


def _retrieval(row: str) -> Recipe:
    return Recipe("retrieval", _cca(row))


TABLE_3 = Table(
    "entities-3",
    "Image–sentence retrieval",
    f"{PAPER}, Table 3",
    DATA,
    _BOTH_WAYS,
    (
        *rows_of(
            _BOTH_WAYS,
            Part("(a) State of the art"),
            """
            brnn | BRNN | 22.2 48.2 61.4 15.2 37.7 50.5
            mnlm | MNLM | 23.0 50.7 62.9 16.8 42.0 56.5
            m-rnn | m-RNN | 35.4 63.8 73.7 22.8 50.7 63.1
            gmm-fv | GMM FV, Klein et al. | 31.8 59.3 71.7 24.2 51.7 65.2
            """,
        ),
        *rows_of(
            _BOTH_WAYS,
            Part("(b) Image–sentence CCA", {"cca": Recipe("retrieval", WHOLE)}),
            "cca | GMM FV (the paper's) | 32.2 59.7 68.5 23.8 51.5 64.4",
        ),
        *rows_of(
            _BOTH_WAYS,
            Part(
                "(c) CCA on regions and NP chunks",
                {row: _retrieval(row) for row in ("chunks", "chunks-1", "chunks-10")},
            ),
            """
            chunks | All NP chunks | 18.2 40.1 51.7 17.6 37.2 50.4
            chunks-1 | Resampled, N = 1 | 21.3 43.5 54.7 16.8 40.1 51.3
            chunks-10 | Resampled, N = 10 | 22.0 45.7 56.8 19.0 42.2 53.8
            """,
        ),
        *rows_of(
            _BOTH_WAYS,
            Part(
                "(d) CCA on regions and augmented phrases",
                {row: _retrieval(row) for row in ("augmented", "augmented-1", "augmented-10")},
            ),
            """
            augmented | All augmented | 18.7 41.0 53.2 17.9 39.0 51.4
            augmented-1 | Resampled, N = 1 | 22.1 47.6 58.3 19.5 43.5 55.8
            augmented-10 | Resampled, N = 10 | 23.5 48.7 59.2 20.7 45.0 57.0
            """,
        ),
        *rows_of(
            _BOTH_WAYS,
            Part(
                "(e) Both, with augmented phrases, N = 10",
                {
                    "joint": _retrieval("joint"),
                    "sae": Recipe("retrieval", STACKED),
                    "weighted": Recipe("retrieval", STACKED, parts=LOCAL),
                },
            ),
            """
            joint | Joint training | 31.0 58.6 67.9 22.0 50.7 62.0
            sae | SAE | 36.7 61.9 73.6 25.4 55.2 68.6
            weighted | Weighted distance | 37.4 63.1 74.3 26.0 56.0 69.3
            """,
        ),
    ),
    needs=("boxes", "train", "dev", "photos"),
    claims=tuple(
        Claim(says, better, worse, score)
        for says, better, worse in (
            ("resampling helps (N = 10 over all NP chunks)", "chunks-10", "chunks"),
            ("augmented phrases over NP chunks (N = 10)", "augmented-10", "chunks-10"),
            ("whole photos and sentences over their parts", "cca", "augmented-10"),
            ("joint training is worse than whole photos alone", "cca", "joint"),
            ("SAE over CCA", "sae", "cca"),
            ("weighted distance over SAE", "weighted", "sae"),
        )
        for score in ("i2t_r1", "t2i_r1")
    ),
)

_LOCALISED = (
    Column("n", "mentions", decimals=0),
    Column("r1", "R@1", decimals=2),
    Column("upper_bound", "R@100", decimals=2),
    Column("ap", "AP", decimals=2),
    Column("ap_nms", "AP-NMS", decimals=2),
)

TABLE_4 = Table(
    "entities-4",
    "Localisation by type: CCA ranks 100 proposals",
    f"{PAPER}, Table 4",
    DATA,
    _LOCALISED,
    rows_of(
        _LOCALISED,
        Part(
            recipes={
                **{name: Recipe("grounding", LOCAL, group=name) for name in _TYPES},
                "overall": Recipe("grounding", LOCAL, group="overall"),
            }
        ),
        """
        people | people | 5776 31.65 89.42 7.26 9.67
        clothing | clothing | 2229 18.71 66.04 6.83 12.77
        bodyparts | bodyparts | 514 7.78 38.72 3.83 2.98
        animals | animals | 503 20.08 85.09 11.64 14.94
        vehicles | vehicles | 395 28.10 91.65 13.31 11.55
        instruments | instruments | 155 32.90 69.68 11.35 16.79
        scene | scene | 1594 12.61 74.91 10.80 3.88
        other | other | 3173 16.20 66.81 3.91 5.07
        overall | overall | 14339 22.76 77.05 8.12 9.71
        """,
    ),
    needs=("boxes", "train", "dev", "photos"),
    notes=("The overall AP and AP-NMS are means over the types.",),
)

COMMONEST = (
    ("man", "1169 20.54 86.83 10.71 10.17"),
    ("woman", "620 34.68 90.65 14.35 16.43"),
    ("group", "180 37.78 96.11 13.75 19.34"),
    ("boy", "152 33.55 91.45 15.28 15.95"),
    ("girl", "148 26.35 82.43 13.16 12.61"),
    ("person", "134 31.34 81.34 10.69 12.35"),
    ("people", "112 20.54 82.14 7.66 12.36"),
    ("dog", "108 11.11 79.63 3.66 8.01"),
    ("two men", "104 65.38 97.12 22.39 23.02"),
    ("street", "100 19.00 66.00 5.19 8.74"),
    ("young boy", "93 29.03 93.55 16.75 16.13"),
    ("two people", "85 36.47 87.06 5.56 9.39"),
    ("child", "84 39.29 91.67 16.03 16.59"),
    ("little girl", "83 34.94 84.34 6.45 19.30"),
    ("water", "80 6.25 67.50 4.09 13.13"),
    ("crowd", "73 26.03 89.04 6.83 10.49"),
    ("little boy", "70 24.29 88.57 11.66 14.17"),
    ("table", "65 23.08 72.31 6.99 10.09"),
    ("ball", "64 32.81 43.75 17.57 30.16"),
    ("two women", "63 36.51 93.65 17.11 11.71"),
    ("young man", "58 36.21 86.43 18.00 14.51"),
    ("white shirt", "58 36.21 67.24 12.29 11.71"),
    ("young girl", "56 37.50 96.43 15.35 23.63"),
    ("hat", "52 15.38 61.54 12.39 16.88"),
)
"""The 24 commonest phrases of the paper's test photos, with their figures."""


def _key(phrase: str) -> str:
    return phrase.replace(" ", "-")


TABLE_5 = Table(
    "entities-5",
    "Localisation of the 24 commonest phrases of the paper's test photos",
    f"{PAPER}, Table 5",
    DATA,
    _LOCALISED,
    rows_of(
        _LOCALISED,
        Part(recipes={_key(phrase): Recipe("grounding", LOCAL, group=f"“{phrase}”") for phrase, _ in COMMONEST}),
        "\n".join(f"{_key(phrase)} | {phrase} | {figures}" for phrase, figures in COMMONEST),
    ),
    needs=("boxes", "train", "dev", "photos"),
    notes=("Phrases are those of the paper; a phrase that the data has never is left empty.",),
)

TABLES = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5)
