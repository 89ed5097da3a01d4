"""Figures that others published for these models and sets, as data: the only place where they stand.

Names of sets are those of the data folders, names of models are ours where we have the model.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Publication:
    """One table of figures, in percent."""

    source: str
    score: str
    """The score of ours that it goes beside: `covered` or `whole`."""
    figures: dict[str, dict[str, float]]
    """By set, then by model; what is absent was not published."""

    def figure(self, name: str, model: str) -> float | None:
        """The figure of a model on a set."""
        return self.figures.get(name, {}).get(model)


def _table(text: str) -> dict[str, dict[str, float]]:
    """Rows of sets under a header of models; a dash where there is none."""
    header, *rows = (line.split() for line in text.strip().splitlines())
    return {
        name: {model: float(word) for model, word in zip(header, words, strict=True) if word != "-"}
        for name, *words in rows
    }


PAPER = Publication(
    "the FABLE paper (Zhang, Song, Ratner, AISTATS 2023), Table 2",
    "whole",
    _table("""
               MajorityVote DawidSkene DataProgramming FlyingSquid MeTaL IBCC  EBCC  WeaSEL Denoise FABLE
    imdb       72.19        70.32      72.26           72.45       72.10 66.74 74.18 67.99  83.61   73.96
    youtube    80.74        81.62      74.90           78.83       76.63 73.83 86.57 0.00   83.79   88.56
    sms        32.80        43.58      32.79           30.05       32.27 48.41 48.41 0.00   87.40   48.81
    cdr        63.16        53.64      53.37           64.81       43.28 9.59  23.89 0.00   61.72   62.15
    yelp       73.42        71.93      73.13           73.95       69.97 68.59 72.87 66.67  66.67   72.50
    commercial 84.23        88.31      76.43           80.86       78.61 76.83 76.43 0.00   87.66   86.62
    tennis     83.82        83.56      84.29           83.31       83.62 83.64 83.67 77.32  19.71   83.63
    trec       52.35        47.18      55.07           48.32       41.94 41.91 46.94 27.60  46.17   53.20
    semeval    78.35        73.53      73.53           11.20       72.69 73.53 73.53 30.19  67.12   74.32
    chemprot   47.96        38.82      45.71           46.25       49.76 31.84 33.80 31.84  45.54   48.35
    agnews     63.85        63.95      63.56           63.63       64.15 25.00 55.94 25.00  50.49   62.74
    """),
)

REPLICATION = Publication(
    "an independent replication (repository stevenan5/bayesian-bf-neurips-2025)",
    "covered",
    _table("""
               MajorityVote DawidSkene snorkel FlyingSquid EBCC HyperLM Denoise FABLE
    imdb       73.7         50.3       72.8    74.5        74.4 75.0    80.3    72.2
    youtube    85.0         83.9       74.5    83.6        45.7 91.0    81.5    87.7
    sms        93.9         87.2       81.5    91.9        84.6 93.9    94.0    93.9
    cdr        72.4         45.8       64.4    73.6        63.0 72.6    73.2    71.6
    yelp       72.4         73.0       57.9    74.0        69.7 74.4    75.0    69.4
    commercial 90.6         93.6       89.8    87.3        83.3 88.2    94.2    92.6
    tennis     86.9         86.5       86.6    86.0        87.3 87.2    76.9    86.6
    trec       54.5         47.7       45.9    50.1        21.0 60.0    49.8    53.6
    semeval    79.1         73.5       72.8    12.2        30.2 84.2    73.5    73.6
    chemprot   54.7         52.7       56.2    52.4        35.1 52.3    57.9    54.4
    agnews     81.4         81.8       81.7    81.3        27.8 81.4    87.6    81.4
    """),
)

PUBLICATIONS = {publication.score: publication for publication in (PAPER, REPLICATION)}
SAME_METHOD = {
    "MeTaL": "snorkel",
    "FABLE:inference=published": "FABLE",
}  # published figures that belong beside ours too


def published_figure(score: str, name: str, model: str) -> float | None:
    """What was published for a model (default settings) on a set, or None."""
    if score not in PUBLICATIONS:
        return None
    publication = PUBLICATIONS[score]
    figure = publication.figure(name, model)
    return publication.figure(name, SAME_METHOD[model]) if figure is None and model in SAME_METHOD else figure
