"""Machines side by side, blended by a softmax: what local deep kernel learning is compared with.

    M. Gönen, E. Alpaydin: Localized multiple kernel learning, ICML 2008: gates are learned.
    L. Ladicky, P. Torr: Locally linear support vector machines, ICML 2011: gates are those of
    anchors, and fixed.

Every query meets all machines, so a prediction costs two dot products for each. They are few:
NumPy's matrix products serve, in training as in prediction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.cluster import KMeans
from sklearn.utils import gen_batches

from vicinal.engine import LocalDescent, LocalForm
from vicinal.problem import Codes, Floats

_ROWS = 4096
"""Queries answered at a time."""


@dataclass(frozen=True)
class Blend:
    """Linear machines and their gates.

    Parameters
    ----------
    gates : float32 array of shape (n_machines, n_features + 1)
        The share of machine k is the softmax of ``form.sigma * gates[k] @ x``, where x is a query
        in its frame with `form.constant` behind its last feature.
    weights : float32 array of shape (n_machines, n_outputs, n_global)
        What shares multiply: ``weights[k] @ z`` with x, or the products of all pairs, as z.
    form : LocalForm
    """

    gates: Floats
    weights: Floats
    form: LocalForm

    @property
    def n_features(self) -> int:
        """Number of features, without the constant one."""
        return self.gates.shape[1] - 1

    @property
    def n_outputs(self) -> int:
        """Number of scores."""
        return self.weights.shape[1]

    @property
    def n_parameters(self) -> int:
        """Number of trained numbers."""
        return self.gates.size + self.weights.size

    @property
    def cost(self) -> float:
        """Dot products of `n_features` numbers that a query takes."""
        share_of_weights = self.n_outputs * self.weights.shape[2] / self.gates.shape[1]
        return float(len(self.gates) * (1 + share_of_weights))

    def score(self, queries: Floats, *, n_threads: int = 1) -> Floats:
        """Return the scores of queries in the frame: an array of shape (n_queries, n_outputs)."""
        scores = np.empty((len(queries), self.n_outputs), dtype=np.float32)
        for rows in gen_batches(len(queries), _ROWS):
            x, z = _with_constant(queries[rows], self.form)
            shares, outputs = _forward(self.gates, self.weights, self.form.sigma, x, z)
            scores[rows] = np.einsum("nk,nkc->nc", shares, outputs)
        return scores


class SoftBlend:
    """A blend in training, as :func:`vicinal.ldkl.training.train` trains soft trees.

    Parameters
    ----------
    gates, weights, form : arrays and LocalForm
        Of the blend, at its start.
    learns_gates : bool
    """

    def __init__(
        self, gates: Floats, weights: Floats, form: LocalForm, *, learns_gates: bool
    ) -> None:
        self.form = form
        self.learns_gates = learns_gates
        self.parameters = np.concatenate([gates.ravel(), weights.ravel()])
        self.moments = np.zeros((2, self.parameters.size), dtype=np.float32)
        self.n_steps = 0
        self.gates = self.parameters[: gates.size].reshape(gates.shape)
        self.weights = self.parameters[gates.size :].reshape(weights.shape)

    def harden(self) -> Blend:
        """Return the blend as it is now."""
        return Blend(self.gates.copy(), self.weights.copy(), self.form)

    def descend(
        self,
        descent: LocalDescent,
        points: Floats,
        targets: Floats,
        weights: Floats,
        order: Codes,
        *,
        batch: int,
        rates: Floats,
        sharpness: Floats,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Take a step of Adam for each `batch` entries of `order`; return the mean losses.

        Nothing grows sharp here, and NumPy chooses the threads.
        """
        decay = np.full(self.parameters.shape, descent.decay_weights, dtype=np.float32)
        decay[: self.gates.size] = descent.decay_gates
        losses = []
        for rows, rate in zip(gen_batches(len(order), batch), rates, strict=True):
            chosen = order[rows]
            loss, gradient = self.gradient(
                descent, points[chosen], targets[chosen], weights[chosen]
            )
            losses.append(loss)
            if not np.isfinite(loss):
                break
            self.n_steps += 1
            mean, square = self.moments
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            unbiased = mean / (1 - 0.9**self.n_steps)
            size = np.sqrt(square / (1 - 0.999**self.n_steps)) + 1e-8
            self.parameters *= 1 - rate * decay
            self.parameters -= rate * unbiased / size
        return np.array(losses)

    def gradient(
        self, descent: LocalDescent, points: Floats, targets: Floats, weights: Floats
    ) -> tuple[float, Floats]:
        """Return the mean loss of samples and its gradient by the parameters."""
        x, z = _with_constant(points, self.form)
        sigma = self.form.sigma
        shares, outputs = _forward(self.gates, self.weights, sigma, x, z)
        scores = np.einsum("nk,nkc->nc", shares, outputs)
        losses, slopes = loss_slopes(descent.loss, scores, targets)
        slopes = slopes * (weights / len(x))[:, None]
        parts = shares[:, :, None] * slopes[:, None, :]
        of_weights = parts.reshape(len(x), -1).T @ z
        of_gates = np.zeros_like(self.gates)
        if self.learns_gates:
            pull = np.einsum("nc,nkc->nk", slopes, outputs)
            pull = shares * (pull - (shares * pull).sum(axis=1, keepdims=True))
            of_gates = sigma * pull.T @ x
        gradient = np.concatenate([of_gates.ravel(), of_weights.ravel()]).astype(np.float32)
        return float(np.mean(weights * losses)), gradient


def start_blend(
    embedding: str,
    n_machines: int,
    n_outputs: int,
    points: Floats,
    form: LocalForm,
    random_state: np.random.RandomState,
) -> SoftBlend:
    """Return a blend that has learned nothing yet, but for the anchors."""
    n_local = points.shape[1] + 1
    n_global = n_local * (n_local + 1) // 2 if form.quadratic else n_local
    size = 1 / np.sqrt(n_local)
    weights = random_state.normal(0, 0.1 * size, (n_machines, n_outputs, n_global))
    if embedding == "softmax":
        gates = random_state.normal(0, size, (n_machines, n_local))
    else:
        gates = _anchor_gates(points, n_machines, form, random_state)
    learns_gates = embedding == "softmax"
    return SoftBlend(
        gates.astype(np.float32), weights.astype(np.float32), form, learns_gates=learns_gates
    )


def _anchor_gates(
    points: Floats, n_anchors: int, form: LocalForm, random_state: np.random.RandomState
) -> NDArray[np.float64]:
    """Return the gates of a local coding: shares fall with the squared distance to an anchor.

    A softmax of -b |x - a|² is one of b (2 a x - |a|²): the part of x alone cancels.
    """
    some = points[random_state.permutation(len(points))[:20_000]]
    k_means = KMeans(min(n_anchors, len(some)), n_init=1, random_state=random_state).fit(some)
    anchors = k_means.cluster_centers_.astype(np.float64)
    anchors = np.resize(anchors, (n_anchors, anchors.shape[1]))
    spread = k_means.inertia_ / len(some)
    width = 1 / max(spread, 1e-12) / form.sigma
    bias = -(anchors**2).sum(axis=1, keepdims=True) / form.constant
    return width * np.hstack([2 * anchors, bias])


def _with_constant(points: Floats, form: LocalForm) -> tuple[Floats, Floats]:
    x = np.hstack([points, np.full((len(points), 1), form.constant, dtype=np.float32)])
    if not form.quadratic:
        return x, x
    i, j = np.triu_indices(x.shape[1])
    return x, x[:, i] * x[:, j]


def _forward(
    gates: Floats, weights: Floats, sigma: float, x: Floats, z: Floats
) -> tuple[Floats, Floats]:
    """Return the shares and the outputs of all machines."""
    outputs = z @ weights.reshape(-1, weights.shape[2]).T
    return softmax(sigma * (x @ gates.T), axis=1), outputs.reshape(len(x), *weights.shape[:2])


def loss_slopes(
    loss: str, scores: Floats, targets: Floats
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return the loss of each row of scores, and its derivatives by them."""
    if loss == "squared_error":
        error = scores - targets[:, None]
        return error[:, 0] ** 2 / 2, error
    if scores.shape[1] == 1:
        sign = np.where(targets > 0, 1.0, -1.0)
        margin = sign * scores[:, 0]
        if loss == "logistic":
            return np.logaddexp(0, -margin), (-sign * expit(-margin))[:, None]
        values, slope = _hinge(loss, margin)
        return values, (sign * slope)[:, None]
    rows, own = np.arange(len(scores)), targets.astype(np.intp)
    slopes = np.zeros_like(scores)
    if loss == "logistic":
        slopes = softmax(scores, axis=1)
        slopes[rows, own] -= 1
        top = scores.max(axis=1)
        return np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top - scores[rows, own], slopes
    others = scores.copy()
    others[rows, own] = -np.inf
    rival = others.argmax(axis=1)
    values, slope = _hinge(loss, scores[rows, own] - scores[rows, rival])
    slopes[rows, own], slopes[rows, rival] = slope, -slope
    return values, slopes


def _hinge(
    loss: str, margin: NDArray[np.floating]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    short_of = np.maximum(0.0, 1.0 - margin)
    if loss == "squared_hinge":
        return short_of**2, -2 * short_of
    return short_of, -(short_of > 0).astype(margin.dtype)
