"""Losses against loops in NumPy, gradients against finite differences of those loops, in float64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'neural'")

from labelfable import read_votes  # noqa: E402 (after the skip)
from labelfable.models.neural import networks, objectives  # noqa: E402 (the same)
from labelfable.models.neural.items import Items, Rows  # noqa: E402 (the same)
from labelfable.numerics.scaling import fit_scaling  # noqa: E402 (the same)
from labelfable.votes.features import read_features  # noqa: E402 (the same)
from tests.crowds import planted_votes  # noqa: E402 (the same)
from tests.oracles import neural as oracle  # noqa: E402 (the same)
from tests.tolerances import TOLERANCE, assert_close  # noqa: E402 (the same)

N_CLASSES = 3
VOTES, _ = planted_votes(14, [0.9, 0.7, 0.6, 0.8], N_CLASSES, coverage=0.6, seed=3)
VOTES[[2, 5, 11]] = -1
COVERED = np.flatnonzero((VOTES >= 0).any(axis=1))
UNCOVERED = np.array([2, 5, 11])
X = np.random.default_rng(1).normal(size=(14, 5))
SIZES = networks.Sizes(n_features=5, n_sources=4, n_classes=N_CLASSES, hidden=6)
SHARES, MOMENTUM = (0.3, 0.5), 0.6


def items_of():
    features = read_features(X)
    rows = Rows(read_votes(VOTES, classes=N_CLASSES), features, fit_scaling(features, "none", 0, 0))
    return Items(torch.from_numpy(X), torch.from_numpy(VOTES), torch.device("cpu"), rows)


def drawn(network):
    """Weights in float64 that are large enough for every nonlinearity to matter."""
    network = network.double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weights in network.parameters():
            weights.copy_(0.7 * torch.randn(weights.shape, generator=generator, dtype=torch.float64))
    return network


def weasel():
    network = drawn(networks.WeaSELNetwork(SIZES, 0.0))
    network.temperature.fill_(1.7)
    network.log_prior.copy_(torch.log(torch.tensor([0.5, 0.3, 0.2])))
    return objectives.WeaSELObjective(network, items_of())


def denoise():
    network = drawn(networks.DenoiseNetwork(SIZES, 0.0))
    return objectives.DenoiseObjective(
        network, items_of(), shares=SHARES, momentum=MOMENTUM, generator=torch.Generator().manual_seed(0)
    )


def numbers_of(network):
    return {name: value.detach().numpy().copy() for name, value in network.state_dict().items()}


def loss_of(objective):
    return sum(objective.terms(torch.from_numpy(COVERED)).values())


def assert_slopes(network, loss):
    """The gradient that PyTorch has stored, along random directions, against differences of the loops' loss."""
    step, base = TOLERANCE["float64"].step, numbers_of(network)
    draws = np.random.default_rng(2)
    for _ in range(6):
        direction = {name: draws.normal(size=value.shape) for name, value in network.named_parameters()}
        length = np.sqrt(sum((part**2).sum() for part in direction.values()))
        direction = {name: part / length for name, part in direction.items()}
        slope = sum(float((value.grad.numpy() * direction[name]).sum()) for name, value in network.named_parameters())
        ends = [loss(base | {name: base[name] + sign * step * d for name, d in direction.items()}) for sign in (1, -1)]
        assert_close(slope, (ends[0] - ends[1]) / (2 * step), "slope")


# WeaSEL


def test_weasel_answers_and_loss_are_those_of_the_loops():
    objective = weasel()
    layers = numbers_of(objective.network)
    x, votes = X[COVERED], VOTES[COVERED]
    answer, encoder = oracle.weasel_logits(layers, x, votes, N_CLASSES)
    batch = objective.items.batch(torch.from_numpy(COVERED))
    assert_close(objective.network.classifier(batch.features).detach().numpy(), answer)
    assert_close(objective.network.aggregate(batch).detach().numpy(), encoder)
    assert_close(loss_of(objective).item(), oracle.weasel_loss(layers, x, votes, N_CLASSES))


def test_weasel_gradient_is_the_slope_of_the_loss_with_its_targets_held():
    objective = weasel()
    x, votes = X[COVERED], VOTES[COVERED]
    held = oracle.weasel_logits(numbers_of(objective.network), x, votes, N_CLASSES)
    loss_of(objective).backward()
    assert_slopes(objective.network, lambda layers: oracle.weasel_loss(layers, x, votes, N_CLASSES, held))


def let_gradients_through(logits, target_logits):
    return -(torch.softmax(target_logits, dim=1) * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()


def test_a_gradient_through_the_target_is_found(monkeypatch):
    monkeypatch.setattr(objectives, "soft_cross_entropy", let_gradients_through)
    test_weasel_answers_and_loss_are_those_of_the_loops()  # the value is the same ...
    with pytest.raises(AssertionError):
        test_weasel_gradient_is_the_slope_of_the_loss_with_its_targets_held()  # ... the slope is not


def softmax_over_classes(self, batch):
    inputs = torch.cat((batch.votes.to(batch.features.dtype), batch.features), dim=1)
    scores = self.encoder(inputs).view(-1, self.sizes.n_sources, self.sizes.n_classes)
    return self.sizes.n_sources**0.5 * self.sizes.n_classes * torch.softmax(scores / self.temperature, dim=2)


def test_a_softmax_over_the_wrong_axis_is_found(monkeypatch):
    monkeypatch.setattr(networks.WeaSELNetwork, "weights", softmax_over_classes)
    with pytest.raises(AssertionError):
        test_weasel_answers_and_loss_are_those_of_the_loops()


# Denoise


def test_pseudo_labels_are_majority_votes_first_and_then_those_of_reliable_sources():
    objective = denoise()
    equal = np.full(4, 0.25)
    assert objective.targets[COVERED].tolist() == oracle.pseudo_labels(equal, VOTES[COVERED], N_CLASSES).tolist()
    for rows in (COVERED[:6], COVERED[6:]):
        objective.terms(torch.from_numpy(rows))
    objective.end_epoch()
    trust = oracle.reliability(numbers_of(objective.network), X[COVERED], VOTES[COVERED])
    assert objective.targets[COVERED].tolist() == oracle.pseudo_labels(trust, VOTES[COVERED], N_CLASSES).tolist()
    assert_close(objectives.source_reliability(torch.tensor([0.2, 0.9])).numpy(), oracle.softmax([0.2, 0.9]))


def visited(times):
    """An objective after so many visits of the uncovered items, the classifier another each time; and its answers."""
    objective, answers = denoise(), []
    for number in range(times):
        answers.append(oracle.log_answers(numbers_of(objective.network), X[UNCOVERED]))
        loss_of(objective)
        with torch.no_grad():
            objective.network.classifier[3].bias += torch.tensor([0.3, -0.2, 0.1 * number])
    return objective, answers


@pytest.mark.parametrize("times", [1, 2, 4])
def test_denoise_loss_and_gradient_are_those_of_the_loops(times):
    objective, answers = visited(times)
    targets = oracle.ensemble(answers, MOMENTUM)
    covered = (X[COVERED], VOTES[COVERED], objective.targets.numpy()[COVERED])

    def loss(layers):
        return oracle.denoise_loss(layers, covered, (X[UNCOVERED], targets), SHARES, N_CLASSES)

    found = loss_of(objective)
    assert_close(found.item(), loss(numbers_of(objective.network)))
    found.backward()
    assert_slopes(objective.network, loss)


def test_an_answer_not_yet_given_is_no_target():
    assert denoise().terms(torch.from_numpy(COVERED))["ensemble"].item() == 0


def test_uncovered_items_take_turns():
    objective = denoise()
    seen = [objective._next_uncovered(2).tolist() for _ in range(4)]
    assert sorted(seen[0] + seen[1]) == sorted(seen[2] + seen[3]) == UNCOVERED.tolist()


def test_a_target_without_its_correction_is_found(monkeypatch):
    monkeypatch.setattr(objectives, "ensemble_target", lambda total, *_: total)
    with pytest.raises(AssertionError):
        test_denoise_loss_and_gradient_are_those_of_the_loops(2)
