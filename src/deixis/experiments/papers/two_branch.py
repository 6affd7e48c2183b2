"""Two-branch networks (Wang, Li, Huang and Lazebnik, TPAMI): Tables 1 to 5."""

from __future__ import annotations

from deixis.experiments.papers.entities import WHOLE
from deixis.experiments.records import NOT_OURS, Claim, Part, Recipe, Row, Table, Training, recalls, rows_of

PAPER = "Wang et al., two-branch networks (TPAMI)"

_LOST = "? stands for figures that our copy of the paper's text has lost."
_RECALLS = recalls({"": ""}, ["r1", "r5", "r10"], decimals=2)
_BOTH_WAYS = recalls({"i2t": "i→s", "t2i": "s→i"}, ["r1", "r5", "r10"])
_SENTENCES = recalls({"s2s": "s→s"}, ["r1", "r5", "r10"])

_PHRASES = "papers/two-branch-phrases"
_WHOLES = "papers/two-branch-sentences"


def _network(settings: str) -> Training:
    return Training("similarity" if settings.startswith("papers/similarity") else "two-branch", settings)


def _grounding(settings: str) -> Recipe:
    return Recipe("grounding", _network(settings))


def _retrieval(settings: str) -> Recipe:
    return Recipe("retrieval", _network(settings))


TABLE_1 = Table(
    "two-branch-1",
    "Phrase localisation, 200 proposals",
    f"{PAPER}, Table 1",
    ("Flickr30k",),
    _RECALLS,
    (
        *rows_of(
            _RECALLS,
            Part(
                "(a) State of the art",
                {"cca": Recipe("grounding", Training("cca", "papers/cca-chunks", ("top=200",), repeated=False))},
            ),
            """
            cca | CCA | ? 64.52 70.77
            structmatch | StructMatch | 42.08 - -
            grounder | GroundeR | ? - -
            mcb-product | MCB, element-wise product | ? - -
            mcb | MCB | 48.69 - -
            """,
        ),
        *rows_of(
            _RECALLS,
            Part(
                "(b) Embedding network",
                {
                    "linear": _grounding(f"{_PHRASES}-linear-one-way"),
                    "one-way": _grounding(f"{_PHRASES}-one-way"),
                    "single": _grounding(f"{_PHRASES}-single-positive"),
                    "augmented": _grounding(f"{_PHRASES}-no-neighbours"),
                    "sampling": _grounding(f"{_PHRASES}-sampling-only"),
                    "constraints": _grounding(_PHRASES),
                },
            ),
            """
            linear | linear, single positive, one direction | 39.60 64.30 71.00
            one-way | nonlinear, single positive, one direction | 43.15 65.78 71.64
            single | nonlinear, single positive, both directions | 44.53 67.46 73.12
            augmented | … with augmented positives | 49.09 69.46 74.80
            sampling | … and neighbourhood sampling | 51.03 70.26 75.25
            constraints | … and neighbourhood constraints | 50.69 70.42 75.51
            """,
        ),
        *rows_of(
            _RECALLS,
            Part(
                "(c) Similarity network",
                {
                    "sim-linear-single": _grounding("papers/similarity-phrases-linear-single-positive"),
                    "sim-single": _grounding("papers/similarity-phrases-single-positive"),
                    "sim-linear": _grounding("papers/similarity-phrases-linear"),
                    "sim": _grounding("papers/similarity-phrases"),
                },
            ),
            """
            sim-linear-single | linear, single positive | 43.19 65.45 70.88
            sim-single | nonlinear, single positive | 45.19 67.14 72.13
            sim-linear | linear, augmented positives | 48.30 68.97 74.08
            sim | nonlinear, augmented positives | 51.05 70.30 75.04
            """,
        ),
    ),
    needs=("boxes", "train", "dev", "photos"),
    claims=(
        Claim("nonlinear over linear (embedding network)", "one-way", "linear", "r1"),
        Claim("both directions over one", "single", "one-way", "r1"),
        Claim("augmented over single positives", "augmented", "single", "r1"),
        Claim("neighbourhood sampling", "sampling", "augmented", "r1"),
        Claim("neighbourhood constraints help R@10 a little", "constraints", "sampling", "r10"),
        Claim("nonlinear over linear (similarity network)", "sim", "sim-linear", "r1"),
        Claim("augmented over single positives (similarity network)", "sim", "sim-single", "r1"),
        Claim("the networks over CCA", "sampling", "cca", "r1"),
    ),
    notes=(_LOST, "The proposals' upper bound in the paper, R@200, is 84.58."),
)

_STATE_OF_FLICKR30K = """
    deep-cca | Deep CCA | ? 56.9 68.2 26.8 52.9 66.9
    mcnn | mCNN (ensemble) | 33.6 64.1 74.9 26.2 56.3 69.6
    m-rnn | m-RNN-vgg | 35.4 63.8 73.7 22.8 50.7 63.1
    mean | Mean vector, Klein et al. | 24.8 52.5 64.3 20.5 46.3 59.3
    cca-klein | CCA (FV HGLMM), Klein et al. | 34.4 61.0 72.3 24.4 52.1 65.6
    cca-both | CCA (FV GMM+HGLMM), Klein et al. | ? 62.0 73.8 25.0 52.7 66.0
    cca | CCA (FV HGLMM), Entities | 36.5 62.2 73.3 24.7 53.4 66.8
    two-way | Two-way Nets | 49.8 67.5 - 36.0 55.6 -
    """

TABLE_2 = Table(
    "two-branch-2",
    "Image–sentence retrieval",
    f"{PAPER}, Table 2",
    ("Flickr30k",),
    _BOTH_WAYS,
    (
        *rows_of(_BOTH_WAYS, Part("(a) State of the art", {"cca": Recipe("retrieval", WHOLE)}), _STATE_OF_FLICKR30K),
        *rows_of(
            _BOTH_WAYS,
            Part(
                "(b) Embedding network",
                {
                    "linear-one-way": _retrieval(f"{_WHOLES}-linear-one-way"),
                    "linear": _retrieval(f"{_WHOLES}-linear"),
                    "one-way": _retrieval(f"{_WHOLES}-one-way"),
                    "both-ways": _retrieval(f"{_WHOLES}-no-neighbours"),
                    "sampling": _retrieval(f"{_WHOLES}-sampling-only"),
                    "constraints": _retrieval(_WHOLES),
                },
            ),
            """
            linear-one-way | linear, one direction | 38.1 68.9 79.4 22.6 49.0 61.5
            linear | linear, both directions | 40.1 66.9 75.9 27.5 56.9 68.5
            one-way | nonlinear, one direction | 40.5 71.9 80.8 22.1 47.1 57.9
            both-ways | nonlinear, both directions | 40.5 70.7 80.9 30.7 61.1 72.3
            sampling | … and neighbourhood sampling | 41.6 69.5 79.3 31.1 61.5 72.8
            constraints | … and neighbourhood constraints | 43.2 71.6 79.8 31.7 61.3 72.4
            """,
        ),
        *rows_of(
            _BOTH_WAYS,
            Part("(c) Embedding network with an LSTM", {"lstm": _retrieval("papers/two-branch-lstm")}),
            "lstm | nonlinear, sampling, constraints | 37.5 64.7 75.0 28.4 56.3 67.4",
        ),
        *rows_of(
            _BOTH_WAYS,
            Part("(d) Similarity network", {"sim": _retrieval("papers/similarity-sentences")}),
            "sim | nonlinear | 16.6 38.8 51.0 7.4 23.5 33.3",
        ),
    ),
    needs=("train", "dev", "photos"),
    claims=tuple(
        Claim(says, better, worse, score)
        for says, better, worse in (
            ("nonlinear over linear", "both-ways", "linear"),
            ("both directions over one", "both-ways", "one-way"),
            ("neighbourhood sampling", "sampling", "both-ways"),
            ("neighbourhood constraints", "constraints", "sampling"),
            ("the network over CCA", "constraints", "cca"),
            ("Fisher vectors over an LSTM", "constraints", "lstm"),
            ("embedding over similarity network", "constraints", "sim"),
        )
        for score in ("i2t_r1", "t2i_r1")
    ),
    notes=(_LOST,),
)

_TABLE_3_STATE = """
    mean | Mean vector, Klein et al. | ? 61.8 75.1 24.2 56.4 72.4
    cca-klein | CCA (FV HGLMM), Klein et al. | ? 66.6 79.1 24.9 58.8 76.5
    cca-both | CCA (FV GMM+HGLMM), Klein et al. | 39.4 67.9 80.9 25.1 59.8 76.6
    dvsa | DVSA | 38.4 69.9 80.5 27.4 60.2 74.8
    m-rnn | m-RNN-vgg | 41.0 73.0 83.5 29.0 42.2 77.0
    mcnn | mCNN (ensemble) | 42.8 73.1 84.1 32.6 68.6 82.8
    layer-norm | LayerNorm | 48.5 80.6 89.8 38.9 74.3 86.3
    order | OrderEmbedding | 46.7 - 88.9 37.9 - 85.9
    two-way | Two-way Nets | 55.8 75.2 - 39.7 63.3 -
    """

TABLE_3 = Table(
    "two-branch-3",
    "Image–sentence retrieval, 1,000 test photos of MS COCO",
    f"{PAPER}, Table 3",
    ("MS COCO",),
    _BOTH_WAYS,
    (
        *rows_of(_BOTH_WAYS, Part("(a) State of the art"), _TABLE_3_STATE),
        *rows_of(
            _BOTH_WAYS,
            Part(
                "(b) Embedding network (nonlinear, both directions)",
                {
                    "both-ways": _retrieval(f"{_WHOLES}-no-neighbours"),
                    "sampling": _retrieval(f"{_WHOLES}-sampling-only"),
                    "constraints": _retrieval(_WHOLES),
                },
            ),
            """
            both-ways | neither | 53.0 82.3 91.6 41.2 75.8 87.7
            sampling | neighbourhood sampling | 54.2 84.1 92.2 42.4 76.2 88.1
            constraints | … and neighbourhood constraints | 54.9 84.0 92.2 43.3 76.4 87.5
            """,
        ),
        *rows_of(
            _BOTH_WAYS,
            Part("(c) Embedding network with an LSTM", {"lstm": _retrieval("papers/two-branch-lstm")}),
            "lstm | sampling and constraints | 54.0 84.0 91.2 43.3 76.8 87.6",
        ),
        *rows_of(
            _BOTH_WAYS,
            Part("(d) Similarity network", {"sim": _retrieval("papers/similarity-sentences")}),
            "sim | nonlinear | 30.9 61.1 76.2 14.0 30.0 37.8",
        ),
    ),
    needs=("train", "dev", "photos"),
    claims=tuple(
        Claim(says, better, worse, score)
        for says, better, worse in (
            ("neighbourhood sampling", "sampling", "both-ways"),
            ("neighbourhood constraints", "constraints", "sampling"),
        )
        for score in ("i2t_r1", "t2i_r1")
    ),
    notes=(_LOST,),
)


def _between_sentences(data: str, prefix: str, lines: str) -> tuple[Row, ...]:
    names = {"neither": f"{_WHOLES}-no-neighbours", "sampling": f"{_WHOLES}-sampling-only", "constraints": _WHOLES}
    recipes = {f"{prefix}{key}": Recipe("sentences", _network(settings)) for key, settings in names.items()}
    return rows_of(_SENTENCES, Part(data, recipes, NOT_OURS, data), lines)


TABLE_4 = Table(
    "two-branch-4",
    "Sentence–sentence retrieval",
    f"{PAPER}, Table 4",
    ("Flickr30k", "MS COCO"),
    _SENTENCES,
    (
        *_between_sentences(
            "Flickr30k",
            "",
            """
            neither | neither | 60.5 81.4 87.7
            sampling | neighbourhood sampling | 60.5 81.5 87.6
            constraints | … and neighbourhood constraints | 63.8 84.1 90.2
            """,
        ),
        *_between_sentences(
            "MS COCO",
            "coco-",
            """
            coco-neither | neither | 54.4 78.3 86.9
            coco-sampling | neighbourhood sampling | 54.3 78.8 86.9
            coco-constraints | … and neighbourhood constraints | 55.5 79.6 87.8
            """,
        ),
    ),
    needs=("train", "dev"),
    claims=(
        Claim("neighbourhood constraints", "constraints", "sampling", "s2s_r1"),
        Claim("neighbourhood constraints (MS COCO)", "coco-constraints", "coco-sampling", "s2s_r1"),
    ),
)

TABLE_5 = Table(
    "two-branch-5",
    "Image–sentence retrieval with regions and phrases",
    f"{PAPER}, Table 5",
    ("Flickr30k",),
    _BOTH_WAYS,
    rows_of(
        _BOTH_WAYS,
        Part(
            recipes={
                "whole": _retrieval(_WHOLES),
                "weighted": Recipe("retrieval", _network(_WHOLES), _network(f"{_PHRASES}-sampling-only"), "two-branch"),
            }
        ),
        """
        whole | Image–sentence model | 43.2 71.6 79.8 31.7 61.3 72.4
        weighted | Weighted distance | 43.4 71.2 79.9 32.1 61.7 72.7
        """,
    ),
    needs=("boxes", "train", "dev", "photos"),
    claims=tuple(Claim("combined over global", "weighted", "whole", score) for score in ("i2t_r1", "t2i_r1")),
    notes=("The paper calls the gain negligible.",),
)

TABLES = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5)
