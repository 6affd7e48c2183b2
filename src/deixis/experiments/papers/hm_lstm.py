"""HM-LSTM (Niu, Zhou, Wang, Gao and Hua, ICCV 2017): Tables 1 to 4, and variants that the paper does not tabulate.

The paper compares its model with other groups' only. Whether its ideas help, apart from better photo features, is asked
by variants of the same recipe: a chain in place of the tree, a tree without syntax, no phrases.
"""

from __future__ import annotations

from deixis.experiments.records import Claim, Part, Recipe, Table, Task, Training, recalls, rows_of

PAPER = "Niu et al., HM-LSTM (ICCV 2017)"

_BOTH_WAYS = recalls({"i2t": "i→s", "t2i": "s→i"}, ["r1", "r10", "medr"])
_REGIONS = recalls({"": ""}, ["r1", "r5", "r10", "medr"], decimals=2)

_JUDGED = ("i2t_r1", "i2t_r10", "t2i_r1", "t2i_r10")

_VARIANTS: dict[str, tuple[str, ...]] = {
    "hm-lstm": (),
    "chain": ("reader=chain",),
    "tree": ("reader=tree-lstm",),
    "root-only": ("phrase_weight=0",),
    "same-photo": ("contrast=photo",),
    "supervised": ("correspondences=gold",),
}
_LABELS = {
    "hm-lstm": "HM-LSTM",
    "chain": "a chain LSTM in place of the tree",
    "tree": "a Tree-LSTM, without syntax",
    "root-only": "root losses only, in as many epochs",
    "same-photo": "contrast within the photo, as eq. 9 is written",
    "supervised": "gold phrases and boxes in place of learned",
}
_NOTES = ("Variants are not in the paper; they share all settings of deixis/hm-lstm but the one that they name.",)


def _training(variant: str) -> Training:
    return Training("hm-lstm", "deixis/hm-lstm", _VARIANTS[variant])


def _part(task: Task, *variants: str, name: str = "", prefix: str = "") -> Part:
    return Part(name, {f"{prefix}{variant}": Recipe(task, _training(variant)) for variant in variants})


def _lines(*variants: str, columns: int, prefix: str = "") -> str:
    return "\n".join(f"{prefix}{variant} | {_LABELS[variant]} | {' '.join('-' * columns)}" for variant in variants)


def _claims(score: str, *worse: str) -> tuple[Claim, ...]:
    return tuple(Claim(f"HM-LSTM over {_LABELS[key]}", "hm-lstm", key, score) for key in worse)


def _ranking(number: int, data: str, others: str, ours: str) -> Table:
    compared = ("chain", "tree", "root-only")
    return Table(
        f"hm-lstm-{number}",
        f"Image–sentence ranking on {data}",
        f"{PAPER}, Table {number}",
        (data,),
        _BOTH_WAYS,
        (
            *rows_of(_BOTH_WAYS, Part(), others),
            *rows_of(_BOTH_WAYS, _part("retrieval", "hm-lstm"), ours),
            *rows_of(_BOTH_WAYS, _part("retrieval", *compared), _lines(*compared, columns=6)),
        ),
        needs=("train", "dev", "photos"),
        any_data=False,
        claims=tuple(claim for score in _JUDGED for claim in _claims(score, *compared)),
        notes=_NOTES,
    )


TABLE_1 = _ranking(
    1,
    "Flickr8k",
    """
    random | Random | 0.1 1.1 631 0.1 1.0 500
    sdt-rnn | SDT-RNN | 6.0 34.0 23 6.6 31.7 25
    devise | DeViSE | 4.8 27.3 28 5.9 29.6 29
    defrag | DeFrag | 12.6 44.0 14 9.7 42.5 15
    sc-nlm | SC-NLM | 13.5 45.7 13 10.4 43.7 14
    deepvs | DeepVS | 16.5 54.2 7.6 11.8 44.7 12.4
    m-rnn | m-RNN | 14.5 48.5 11 11.5 42.4 15
    nic | NIC | 20 61 6 19 64 5
    """,
    "hm-lstm | HM-LSTM | 27.7 68.6 5 24.4 68.1 4",
)

TABLE_2 = _ranking(
    2,
    "Flickr30k",
    """
    random | Random | 0.1 1.1 631 0.1 1.0 500
    sdt-rnn | SDT-RNN | 9.6 41.1 16 8.9 41.1 16
    devise | DeViSE | 4.5 29.2 26 6.7 32.7 25
    defrag | DeFrag | 14.2 51.3 10 10.2 44.2 14
    sc-nlm | SC-NLM | 14.8 50.9 10 11.8 46.3 13
    deepvs | DeepVS | 22.2 61.4 4.8 15.2 50.5 9.2
    m-rnn | m-RNN | 18.4 50.9 10 12.6 41.5 16
    nic | NIC | 17.0 56.0 7 17.0 57.0 7
    m-rnn-vgg | m-RNN-vgg | 35.4 73.7 3 22.8 63.1 5
    deepsp | DeepSP | 35.7 74.4 - 25.1 66.5 -
    """,
    "hm-lstm | HM-LSTM | 38.1 76.5 3 27.7 68.8 4",
)

TABLE_3 = _ranking(
    3,
    "MS COCO",
    """
    random | Random | 0.1 1.1 631 0.1 1.0 500
    deepvs | DeepVS | 36.4 80.9 3 28.1 76.1 3
    m-rnn-vgg | m-RNN-vgg | 41.0 83.5 2 29.0 77.0 3
    deepsp | DeepSP | 40.7 85.3 - 33.5 83.2 -
    """,
    "hm-lstm | HM-LSTM | 43.9 87.8 2 36.1 86.7 3",
)

_COMPARED = ("chain", "tree", "root-only", "same-photo", "supervised")
_POINTING = ("hm-lstm", *_COMPARED)

TABLE_4 = Table(
    "hm-lstm-4",
    "Region–phrase ranking: gold regions ask for their phrases; and phrases for their regions",
    f"{PAPER}, Table 4",
    ("MS-COCO-region",),
    _REGIONS,
    (
        *rows_of(
            _REGIONS,
            Part(),
            """
            random | Random | 0.02 0.12 0.24 3133
            deepvs | DeepVS | 7.2 18.1 26.8 64
            """,
        ),
        *rows_of(
            _REGIONS,
            Part(recipes={"m-rnn-vgg": Recipe("regions", Training("m-rnn", "papers/m-rnn"))}),
            "m-rnn-vgg | m-RNN-vgg | 8.1 20.6 28.2 56",
        ),
        *rows_of(_REGIONS, _part("regions", "hm-lstm"), "hm-lstm | HM-LSTM | 10.8 22.6 30.7 42"),
        *rows_of(_REGIONS, _part("regions", *_COMPARED), _lines(*_COMPARED, columns=4)),
        *rows_of(
            _REGIONS,
            _part("grounding", *_POINTING, name="learned correspondences (§5.3.2), R@1 at IoU 0.5", prefix="points-"),
            _lines(*_POINTING, columns=4, prefix="points-"),
        ),
    ),
    needs=("boxes", "train", "dev", "photos"),
    claims=(
        Claim("HM-LSTM over m-RNN", "hm-lstm", "m-rnn-vgg", "r1"),
        *_claims("r1", *_COMPARED[:-1]),
        *_claims("r10", *_COMPARED[:-1]),
        *(
            Claim(f"correspondences: HM-LSTM over {_LABELS[key]}", "points-hm-lstm", f"points-{key}", "r1")
            for key in _COMPARED[:-1]
        ),
    ),
    notes=(
        *_NOTES,
        "In the lower part a phrase asks for its region among the whole photo and its proposals. The paper had people "
        "judge 2,000 such pairs of its training photos: 82 % right.",
    ),
)

TABLES = (TABLE_1, TABLE_2, TABLE_3, TABLE_4)
