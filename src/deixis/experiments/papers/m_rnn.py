"""m-RNN (Mao, Xu, Yang, Wang, Huang and Yuille, ICLR 2015): Tables 1 to 5 and 7 to 9."""

from __future__ import annotations

from typing import Literal

from deixis.experiments.records import Claim, Column, Part, Recipe, Table, Training, Writing, recalls, rows_of

PAPER = "Mao et al., m-RNN (ICLR 2015)"

_OTHER_FEATURES = "ours, with our own features, stands beside the VggNet row"
_SERVER_ONLY = "only MS COCO's server can score it"
_FORTY = "needs 40 captions of each photo, which only MS COCO's server has"
_GREEDY = "Captions are written as the paper's: the likeliest word each time."
_CIDER = "CIDEr is COCO's, which deixis evaluate calls cider_d."


def _network(name: str) -> Training:
    return Training("m-rnn", f"papers/{name}")


def _captions(name: str, beam: int = 1) -> Recipe:
    return Recipe("captions", _network(name), writing=Writing(beam))


def _reranked(
    by: Literal["bleu", "cider", "bleu-oracle", "cider-oracle"], feature: Literal["refined", "photo"] = "refined"
) -> Recipe:
    return Recipe("captions", _network("m-rnn-shared"), writing=Writing(10, by, feature))


_M_RNN = {"m-rnn": _captions("m-rnn")}
_RETRIEVAL = Recipe("retrieval", _network("m-rnn"))
_PERPLEXITY = (Column("perplexity", "perplexity", decimals=2),)
_BLEU = tuple(Column(f"bleu{n}", f"B-{n}", factor=100) for n in (1, 2, 3, 4))
_GENERATION = (*_PERPLEXITY, *_BLEU)
_SERVER = (
    *_BLEU,
    Column("cider_d", "CIDEr", factor=100),
    Column("rouge_l", "ROUGE-L", factor=100),
    Column("meteor", "METEOR", factor=100),
)
_BOTH_WAYS = recalls({"i2t": "i→s", "t2i": "s→i"}, ["r1", "r5", "r10", "medr"])

TABLE_1 = Table(
    "m-rnn-1",
    "Sentences for photos of IAPR TC-12",
    f"{PAPER}, Table 1",
    ("IAPR TC-12",),
    _GENERATION,
    (
        *rows_of(
            _GENERATION,
            Part(),
            """
            lbl | LBL | 9.29 0.321 0.145 0.064 -
            mlblb | MLBL-B, AlexNet | 9.86 0.393 0.211 0.112 -
            mlblf | MLBL-F, AlexNet | 9.90 0.387 0.209 0.115 -
            gupta | Gupta et al. | - 0.15 0.06 0.01 -
            gupta-mannem | Gupta & Mannem | - 0.33 0.18 0.07 -
            """,
        ),
        *rows_of(
            _GENERATION,
            Part(recipes={**_M_RNN, "rnn-base": _captions("rnn-base")}),
            """
            rnn-base | RNN-Base | 7.77 0.307 0.177 0.096 0.043
            m-rnn | m-RNN, AlexNet | 6.92 0.482 0.357 0.269 0.208
            """,
        ),
    ),
    needs=("train", "dev", "photos"),
    any_data=False,
    claims=(Claim("the image helps: m-RNN over RNN-Base", "m-rnn", "rnn-base", "bleu1"),),
    notes=(_GREEDY,),
)

TABLE_2 = Table(
    "m-rnn-2",
    "Image–sentence retrieval on IAPR TC-12",
    f"{PAPER}, Table 2",
    ("IAPR TC-12",),
    _BOTH_WAYS,
    rows_of(_BOTH_WAYS, Part(recipes={"m-rnn": _RETRIEVAL}), "m-rnn | m-RNN | 20.9 43.8 54.4 8 13.2 31.2 40.8 21"),
    needs=("train", "dev", "photos"),
    any_data=False,
)

TABLE_3 = Table(
    "m-rnn-3",
    "Image–sentence retrieval on Flickr8k",
    f"{PAPER}, Table 3",
    ("Flickr8k",),
    _BOTH_WAYS,
    (
        *rows_of(
            _BOTH_WAYS,
            Part(),
            """
            random | Random | 0.1 0.5 1.0 631 0.1 0.5 1.0 500
            sdt-rnn | SDT-RNN, AlexNet | 4.5 18.0 28.6 32 6.1 18.5 29.0 29
            socher | Socher, avg. RCNN | 6.0 22.7 34.0 23 6.6 21.6 31.7 25
            devise | DeViSE, avg. RCNN | 4.8 16.5 27.3 28 5.9 20.1 29.6 29
            deepfe | DeepFE, AlexNet | 5.9 19.2 27.3 34 5.2 17.6 26.5 32
            deepfe-rcnn | DeepFE, RCNN | 12.6 32.9 44.0 14 9.7 29.6 42.5 15
            """,
        ),
        *rows_of(
            _BOTH_WAYS,
            Part(recipes={"m-rnn": _RETRIEVAL}),
            "m-rnn | m-RNN, AlexNet | 14.5 37.2 48.5 11 11.5 31.0 42.4 15",
        ),
    ),
    needs=("train", "dev", "photos"),
    any_data=False,
)

TABLE_4 = Table(
    "m-rnn-4",
    "Image–sentence retrieval on Flickr30k and MS COCO",
    f"{PAPER}, Table 4",
    ("Flickr30k", "MS COCO"),
    _BOTH_WAYS,
    (
        *rows_of(
            _BOTH_WAYS,
            Part("Flickr30k", data="Flickr30k"),
            """
            random | Random | 0.1 0.6 1.1 631 0.1 0.5 1.0 500
            devise | DeViSE, avg. RCNN | 4.8 16.5 27.3 28 5.9 20.1 29.6 29
            deepfe-rcnn | DeepFE, RCNN | 16.4 40.2 54.7 8 10.3 31.4 44.5 13
            rvr | RVR | 12.1 27.8 47.8 11 12.7 33.1 44.9 12.5
            mnlm | MNLM, AlexNet | 14.8 39.2 50.9 10 11.8 34.0 46.3 13
            mnlm-vgg | MNLM, VggNet | 23.0 50.7 62.9 5 16.8 42.0 56.5 8
            nic | NIC | 17.0 - 56.0 7 17.0 - 57.0 7
            lrcn | LRCN | 14.0 34.9 47.0 11 - - - -
            deepvs | DeepVS | 22.2 48.2 61.4 4.8 15.2 37.7 50.5 9.2
            """,
        ),
        *rows_of(
            _BOTH_WAYS,
            Part("Flickr30k", {"m-rnn": _RETRIEVAL}, _OTHER_FEATURES, "Flickr30k"),
            """
            m-rnn-alexnet | m-RNN, AlexNet | 18.4 40.2 50.9 10 12.6 31.2 41.5 16
            m-rnn | m-RNN, VggNet | 35.4 63.8 73.7 3 22.8 50.7 63.1 5
            """,
        ),
        *rows_of(
            _BOTH_WAYS,
            Part("MS COCO", data="MS COCO"),
            """
            coco-random | Random | 0.1 0.6 1.1 631 0.1 0.5 1.0 500
            coco-deepvs | DeepVS, RCNN | 29.4 62.0 75.9 2.5 20.9 52.8 69.2 4
            """,
        ),
        *rows_of(
            _BOTH_WAYS,
            Part("MS COCO", {"coco-m-rnn": _RETRIEVAL}, data="MS COCO"),
            "coco-m-rnn | m-RNN, VggNet | 41.0 73.0 83.5 2 29.0 42.2 77.0 3",
        ),
    ),
    needs=("train", "dev", "photos"),
    any_data=False,
    notes=("NIC's 57.0 stands under R@5 in our copy of the paper's text; NIC reports R@1 and R@10 only.",),
)

TABLE_5 = Table(
    "m-rnn-5",
    "Sentences for photos of Flickr30k and MS COCO",
    f"{PAPER}, Table 5; Flickr8k from §7.4",
    ("Flickr30k", "MS COCO", "Flickr8k"),
    _GENERATION,
    (
        *rows_of(
            _GENERATION,
            Part("Flickr30k", data="Flickr30k"),
            """
            rvr | RVR | - - - - 0.13
            deepvs | DeepVS, AlexNet | - 0.47 0.21 0.09 -
            deepvs-vgg | DeepVS, VggNet | 21.20 0.50 0.30 0.15 -
            nic | NIC | - 0.66 - - -
            lrcn | LRCN | - 0.59 0.39 0.25 0.16
            """,
        ),
        *rows_of(
            _GENERATION,
            Part("Flickr30k", _M_RNN, _OTHER_FEATURES, "Flickr30k"),
            """
            m-rnn-alexnet | m-RNN, AlexNet | 35.11 0.54 0.36 0.23 0.15
            m-rnn | m-RNN, VggNet | 20.72 0.60 0.41 0.28 0.19
            """,
        ),
        *rows_of(
            _GENERATION,
            Part("MS COCO", data="MS COCO"),
            """
            coco-rvr | RVR | - - - - 0.19
            coco-deepvs | DeepVS, AlexNet | - 0.53 0.28 0.15 -
            coco-deepvs-vgg | DeepVS, VggNet | 19.64 0.57 0.37 0.19 -
            coco-nic | NIC | - 0.67 - - -
            coco-lrcn | LRCN | - 0.63 0.44 0.31 0.21
            coco-dmsm | DMSM | - - - - 0.21
            """,
        ),
        *rows_of(
            _GENERATION,
            Part("MS COCO", {"coco-m-rnn": _captions("m-rnn")}, data="MS COCO"),
            "coco-m-rnn | m-RNN, VggNet | 13.60 0.67 0.49 0.35 0.25",
        ),
        *rows_of(
            _GENERATION,
            Part(
                "Flickr8k (in the text, not in the table)",
                {
                    "flickr8k-m-rnn": _captions("m-rnn"),
                    "flickr8k-beam": _captions("m-rnn", 5),
                    "flickr8k-rnn-base": _captions("rnn-base"),
                },
                data="Flickr8k",
            ),
            """
            flickr8k-m-rnn | m-RNN, AlexNet | 24.39 0.565 0.386 0.256 0.170
            flickr8k-beam | … a beam of 5 (ours alone) | - - - - -
            flickr8k-rnn-base | RNN-Base (ours alone) | - - - - -
            """,
        ),
    ),
    needs=("train", "dev", "photos"),
    any_data=False,
    claims=(
        Claim("the image helps: m-RNN over RNN-Base", "flickr8k-m-rnn", "flickr8k-rnn-base", "bleu1"),
        Claim("a beam over the likeliest word", "flickr8k-beam", "flickr8k-m-rnn", "bleu4"),
    ),
    notes=(_GREEDY,),
)

TABLE_7 = Table(
    "m-rnn-7",
    "Sentences for the test photos of MS COCO, scored by its evaluation server",
    f"{PAPER}, Table 7",
    ("MS COCO",),
    _SERVER,
    rows_of(
        _SERVER,
        Part(recipes={"greedy-c5": _captions("m-rnn"), "beam-c5": _captions("m-rnn", 5)}, why_not=_FORTY),
        """
        greedy-c5 | greedy, 5 references | 0.668 0.488 0.342 0.239 0.729 0.489 0.221
        greedy-c40 | greedy, 40 references | 0.845 0.730 0.598 0.473 0.740 0.616 0.291
        beam-c5 | beam, 5 references | 0.680 0.506 0.369 0.272 0.791 0.499 0.225
        beam-c40 | beam, 40 references | 0.865 0.760 0.641 0.529 0.789 0.640 0.304
        """,
    ),
    needs=("train", "dev", "photos"),
    any_data=False,
    claims=(Claim("a beam over the likeliest word", "beam-c5", "greedy-c5", "bleu4"),),
    notes=(
        _CIDER,
        "Ours are of photos whose captions are here, not of the server's test photos; the beam has a width of 5.",
    ),
)

TABLE_8 = Table(
    "m-rnn-8",
    "Consensus reranking of m-RNN-shared",
    f"{PAPER}, Table 8",
    ("MS COCO",),
    _SERVER,
    (
        *rows_of(
            _SERVER,
            Part(
                "validation photos",
                {
                    "shared": _captions("m-rnn-shared", 5),
                    "bleu": _reranked("bleu"),
                    "cider": _reranked("cider"),
                    "bleu-oracle": _reranked("bleu-oracle"),
                    "cider-oracle": _reranked("cider-oracle"),
                },
            ),
            """
            shared | m-RNN-shared | 0.686 0.511 0.375 0.280 0.842 0.500 0.228
            bleu | reranked by BLEU | 0.718 0.550 0.409 0.305 0.909 0.519 0.235
            cider | reranked by CIDEr | 0.714 0.543 0.406 0.304 0.938 0.519 0.239
            bleu-oracle | BLEU oracle | 0.792 0.663 0.543 0.443 1.235 0.602 0.287
            cider-oracle | CIDEr oracle | 0.784 0.648 0.529 0.430 1.272 0.593 0.287
            """,
        ),
        *rows_of(
            _SERVER,
            Part("test photos, by MS COCO's server", why_not=_SERVER_ONLY),
            """
            test-shared | m-RNN-shared | 0.685 0.512 0.376 0.279 0.819 0.504 0.229
            test-bleu | reranked by BLEU | 0.720 0.553 0.410 0.302 0.886 0.524 0.238
            test-cider | reranked by CIDEr | 0.716 0.545 0.404 0.299 0.917 0.521 0.242
            """,
        ),
        *rows_of(
            _SERVER,
            Part(
                "neighbours by the photos' own vectors (not in the paper's table)",
                {"bleu-photo": _reranked("bleu", "photo"), "cider-photo": _reranked("cider", "photo")},
            ),
            """
            bleu-photo | reranked by BLEU | - - - - - - -
            cider-photo | reranked by CIDEr | - - - - - - -
            """,
        ),
    ),
    needs=("train", "dev", "photos"),
    claims=(
        Claim("reranking by BLEU helps", "bleu", "shared", "bleu4"),
        Claim("reranking by CIDEr helps", "cider", "shared", "cider_d"),
        Claim("refined features over the photos' own (BLEU)", "bleu", "bleu-photo", "bleu4"),
        Claim("refined features over the photos' own (CIDEr)", "cider", "cider-photo", "cider_d"),
    ),
    notes=(
        _CIDER,
        "Ours: a beam of 5 for direct output, of 10 to choose from; k and m for each half of the photos are those that "
        "are best on the other half.",
    ),
)

_VARIANTS = {
    "no-emb-input": "NoEmbInput",
    "one-layer-emb": "OneLayerEmb",
    "emb-one-input": "EmbOneInput",
    "vis-in-rnn": "visInRnn",
    "vis-in-rnn-both": "visInRnn-both",
    "vis-in-rnn-both-shared": "visInRnn-both-shared",
}

TABLE_9 = Table(
    "m-rnn-9",
    "Variants of m-RNN",
    f"{PAPER}, Table 9",
    ("Flickr30k",),
    _BLEU,
    rows_of(
        _BLEU,
        Part(recipes={**_M_RNN, **{key: _captions(f"m-rnn-{key}") for key in _VARIANTS}}),
        """
        m-rnn | m-RNN | 0.600 0.412 0.278 0.187
        no-emb-input | NoEmbInput | 0.592 0.408 0.277 0.188
        one-layer-emb | OneLayerEmb | 0.594 0.406 0.274 0.184
        emb-one-input | EmbOneInput | 0.590 0.406 0.274 0.185
        vis-in-rnn | visInRnn | 0.466 0.267 0.157 0.101
        vis-in-rnn-both | visInRnn-both | 0.546 0.333 0.191 0.120
        vis-in-rnn-both-shared | visInRnn-both-shared | 0.478 0.279 0.171 0.110
        """,
    ),
    needs=("train", "dev", "photos"),
    claims=tuple(Claim(f"m-RNN over {label}", "m-rnn", key, "bleu1") for key, label in _VARIANTS.items()),
    notes=(_GREEDY,),
)

TABLES = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5, TABLE_7, TABLE_8, TABLE_9)
