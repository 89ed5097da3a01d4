"""How far each view of an item can be trusted, told by votes that the view has not seen.

A fit that has seen half of the sources says of an item, from three sides, how probable each class is: from votes and
features together, from the features alone, from the votes alone.  The other half's votes on the same items are its
judges.  They err, but how often follows from how often votes agree with each other, so that a view which is too sure of
itself, or learned from the features only which source would speak, predicts them badly.  No gold is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labelfable.votes.table import VoteTable

LEAST_DOUBT = 0.01  # a vote is never taken for certain, nor for quite without meaning
STEPS = 500  # of the weights' EM; each costs one pass over the judges' votes
SMALLEST_STEP = 1e-6


def vote_accuracy(rows: VoteTable) -> float:
    """How often a vote names the class, from how often two votes on an item agree.                Equation (CA.1)

        r = mean over items with two or more votes of the share of agreeing pairs
        r = a² + (1 − a)²/(K − 1)   ⇒   a = ( 1 + √( (K − 1)(K r − 1) ) ) / K

    as if votes were right with probability a, each for itself, and else spread evenly.  Votes that exclude a class or
    say nothing are left out.  Where no item has two votes nothing is known, and a is halfway between chance and one.
    """
    n_classes = rows.n_classes
    chance = 1 / n_classes
    names = np.zeros((rows.n_sources, rows.n_labels, n_classes))
    names[:, :n_classes] = np.eye(n_classes)
    counts = rows.evidence(names)
    own = counts if rows.is_hard else rows.plain_incidence.power(2) @ names[:, : rows.n_spoken].reshape(-1, n_classes)
    given = counts.sum(axis=1)
    several = given > 1
    if n_classes == 1 or not several.any():
        return (1 + chance) / 2
    agreeing, pairs = (counts**2 - own).sum(axis=1)[several], (given * (given - 1))[several]
    share = float(np.mean(np.clip(agreeing / pairs, 0.0, 1.0)))
    accuracy = chance * (1 + np.sqrt((n_classes - 1) * max(n_classes * share - 1, 0.0)))
    return float(np.clip(accuracy, chance, 1 - LEAST_DOUBT * (1 - chance)))


def vote_meanings(rows: VoteTable, accuracy: float) -> NDArray[np.floating]:
    """Probability of each label where an item of each class gets a vote.  [K, labels].            Equation (CA.2)

        P(l | k) = a f_l / Σ_{l' fits k} f_l'  where l fits k,   (1 − a) f_l / Σ_{l' does not} f_l'  elsewhere

    f_l is the label's share of all votes, and a label fits the classes that it leaves possible.
    """
    labels = rows.n_spoken
    given = rows.label_counts()[:, :labels].sum(axis=0) + LEAST_DOUBT
    fits = rows.meaning[:labels].T > 0
    right, wrong = np.where(fits, given, 0.0), np.where(fits, 0.0, given)
    whole = np.maximum(wrong.sum(axis=1, keepdims=True), LEAST_DOUBT)
    return np.asarray(accuracy * right / right.sum(axis=1, keepdims=True) + (1 - accuracy) * wrong / whole)


def held_out_votes(
    rows: VoteTable, seen: NDArray[np.bool_], most: float
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]]:
    """Votes of the sources outside `seen` on items where those inside vote: item (rising), label and weight of each.

    A source's n votes weigh n/(1 + n/most) together: it errs by habit, so that its thousandth vote tells little more.
    """
    entries = rows.plain_incidence.tocoo()  # row by row
    source, label = np.divmod(entries.col, rows.n_spoken)
    inside = np.bincount(entries.row, weights=seen[source] * entries.data, minlength=rows.n_items) > 0
    judges = ~seen[source] & inside[entries.row]
    item, source, label, given = entries.row[judges], source[judges], label[judges], entries.data[judges]
    number = np.bincount(source, weights=given, minlength=rows.n_sources)
    return item, label, given / (1 + number[source] / most)


def view_weights(
    likelihoods: NDArray[np.floating], counts: NDArray[np.floating], prior: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Weights of the views in their mean, most probable given the votes that none of them saw.    Equation (CA.3)

        maximise  Σ_v n_v log Σ_u w_u P(vote v | view u)  +  Σ_u β_u log w_u     over weights that sum to 1

    by EM, which cannot lower it; it is concave, so there is one answer.  Shapes: [votes, views], [votes], [views] ->
    [views].
    """
    weights = prior / prior.sum()
    for _ in range(STEPS):
        joint = likelihoods * weights
        shares = joint * (counts / joint.sum(axis=1))[:, None]
        updated = prior + shares.sum(axis=0)
        updated /= updated.sum()
        moved = float(np.abs(updated - weights).max())
        weights = updated
        if moved < SMALLEST_STEP:
            break
    return np.asarray(weights)
