"""HM-LSTM (Niu, Zhou, Wang, Gao and Hua, ICCV 2017): Tables 1 to 4."""

from __future__ import annotations

from deixis.experiments.records import Part, Table, recalls, rows_of

PAPER = "Niu et al., HM-LSTM (ICCV 2017)"
NOT_YET = "hm-lstm has no recipe in this table yet"

_OURS = Part(why_not=NOT_YET)
_BOTH_WAYS = recalls({"i2t": "i→s", "t2i": "s→i"}, ["r1", "r10", "medr"])
_REGIONS = recalls({"": ""}, ["r1", "r5", "r10", "medr"], decimals=2)


def _ranking(number: int, data: str, others: str, ours: str) -> Table:
    return Table(
        f"hm-lstm-{number}",
        f"Image–sentence ranking on {data}",
        f"{PAPER}, Table {number}",
        (data,),
        _BOTH_WAYS,
        (*rows_of(_BOTH_WAYS, Part(), others), *rows_of(_BOTH_WAYS, _OURS, ours)),
        needs=("train", "dev", "photos"),
        any_data=False,
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

TABLE_4 = Table(
    "hm-lstm-4",
    "Region–phrase ranking: gold regions ask for their phrases",
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
            Part(why_not="m-rnn has no recipe in this table yet"),
            "m-rnn-vgg | m-RNN-vgg | 8.1 20.6 28.2 56",
        ),
        *rows_of(_REGIONS, _OURS, "hm-lstm | HM-LSTM | 10.8 22.6 30.7 42"),
    ),
    needs=("boxes", "train", "dev", "photos"),
)

TABLES = (TABLE_1, TABLE_2, TABLE_3, TABLE_4)
