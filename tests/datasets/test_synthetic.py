import math

import numpy as np
import pytest

from labelfable.datasets import fable_story, gaussian_classes
from labelfable.errors import InputError
from tests.tolerances import STANDARD_ERRORS


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("features", "gold")
    ) and np.array_equal(one.votes.votes, other.votes.votes)


@pytest.mark.parametrize("width", [0.7, "random"])
def test_each_source_votes_its_class_where_its_dimension_is_near_the_mean(width):
    """Item by item and source by source, from the means and widths that the draw tells."""
    data = gaussian_classes(300, width=width, random_state=3)
    means, widths = data.provenance["means"], data.provenance["widths"]
    for item, source in np.ndindex(300, 8):
        class_, dimension = divmod(source, 2)
        near = abs(data.features[item, dimension] - means[class_][dimension]) < widths[class_][dimension]
        assert data.votes.votes[item, source] == (class_ if near else -1)
    assert data.source_names[3] == "class 1, dimension 1"
    if width == "random":
        assert 1 <= np.min(widths) < np.max(widths) <= 3
    else:
        assert np.unique(widths).tolist() == [width]


def test_features_are_gaussian_about_the_means_of_their_class():
    n = 20_000
    data = gaussian_classes(n, separation=1.5, random_state=1)
    means = np.array(data.provenance["means"])
    assert np.sort(means, axis=0).tolist() == [[-2.25] * 2, [-0.75] * 2, [0.75] * 2, [2.25] * 2]
    noise = data.features - means[data.gold]
    for class_ in range(4):
        own = noise[data.gold == class_]
        limit = STANDARD_ERRORS / math.sqrt(len(own))
        assert abs(len(own) / n - 0.25) < STANDARD_ERRORS * math.sqrt(0.25 * 0.75 / n)
        assert np.abs(own.mean(axis=0)).max() < limit
        assert np.abs(np.cov(own.T) - np.eye(2)).max() < 2 * limit  # the variance of a square is 2


def test_draws_follow_their_seed_alone():
    assert same(gaussian_classes(50, random_state=1), gaussian_classes(50, random_state=1))
    assert not same(gaussian_classes(50, random_state=1), gaussian_classes(50, random_state=2))
    assert same(fable_story(50, random_state=1).data, fable_story(50, random_state=1).data)
    assert not same(fable_story(50, random_state=1).data, fable_story(50, random_state=2).data)


@pytest.mark.parametrize("wrong", [{"n_items": 0}, {"width": 0}, {"width": "wide"}, {"separation": -1.0}])
def test_impossible_draws_are_refused(wrong):
    with pytest.raises(InputError, match="no such data"):
        gaussian_classes(**{"n_items": 10} | wrong)


@pytest.mark.parametrize("n_subtypes", [1, 2])
def test_the_storys_posteriors_are_calibrated_and_the_more_is_known_the_better(n_subtypes):
    """If items really come about as told, what is said with probability p is true in a share p of cases."""
    story = fable_story(20_000, n_subtypes=n_subtypes, random_state=5)
    gold = story.data.gold
    losses = []
    for posterior in (story.by_both, story.by_votes, story.by_features):
        own = posterior[np.arange(len(gold)), gold]
        losses.append(-np.log(own).mean())
        if posterior is story.by_votes:
            continue  # components are as frequent as they came out, which is not quite how often they were meant to
        likely = posterior.max(axis=1)
        right = posterior.argmax(axis=1) == gold
        spread = math.sqrt((likely * (1 - likely)).sum())
        assert abs(right.sum() - likely.sum()) < STANDARD_ERRORS * spread
    assert losses[0] < min(losses[1:])


def test_sources_of_the_story_speak_as_often_as_told():
    story = fable_story(20_000, n_sources=4, random_state=0)
    assert abs(story.data.votes.votes_per_item.mean() / 4 - 0.6) < STANDARD_ERRORS * math.sqrt(0.24 / 80_000)
    assert story.data.metric == "accuracy"
