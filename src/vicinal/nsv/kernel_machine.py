"""A kernel machine that somebody else has trained, as a scikit-learn classifier."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions

from vicinal.chunks import in_chunks
from vicinal.nsv.expansion import KINDS, Lift

MachineKernel = Literal["linear", "rbf", "poly", "normalised_poly", "sigmoid"]


class KernelMachine(ClassifierMixin, BaseEstimator):
    """A frozen kernel machine for two classes: vectors, coefficients, bias and kernel.

    Whoever has trained it, a kernel Fisher discriminant, say, its decision is the sum of ``coef[i]
    * kernel(vectors[i], x)`` plus the bias. It is fitted from the beginning.

    Parameters
    ----------
    vectors : array-like of shape (n_vectors, n_features)
    coef : array-like of shape (n_vectors,)
    bias : float, default=0.0
    kernel : {"rbf", "linear", "poly", "normalised_poly", "sigmoid"}, default="rbf"
        "normalised_poly" is "poly" divided by the square roots of its values of each point with
        itself.
    gamma : float, default=1.0
    degree : int, default=3
    coef0 : float, default=0.0
    classes : array-like of shape (2,), default=(0, 1)
        Labels for negative and for positive decisions.

    Attributes
    ----------
    classes_ : array of shape (2,)
    n_features_in_ : int

    See Also
    --------
    NSVClassifier : Answers queries with a few of the vectors.

    Examples
    --------
    >>> from vicinal import KernelMachine
    >>> machine = KernelMachine([[0.0], [2.0]], coef=[-1.0, 1.0], classes=["left", "right"])
    >>> machine.predict([[0.3], [1.4]]).tolist()
    ['left', 'right']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(KINDS))],
        "bias": [Real],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Real],
    }

    def __init__(
        self,
        vectors: ArrayLike,
        coef: ArrayLike,
        bias: float = 0.0,
        kernel: MachineKernel = "rbf",
        *,
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 0.0,
        classes: ArrayLike = (0, 1),
    ) -> None:
        self.vectors = vectors
        self.coef = coef
        self.bias = bias
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.classes = classes

    @property
    def classes_(self) -> NDArray[Any]:
        """The two labels."""
        return np.asarray(self.classes)

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return int(np.shape(self.vectors)[1])

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Check the parameters; nothing is learnt."""
        self.checked()
        return self

    def checked(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return vectors and coefficients as arrays that fit together."""
        self._validate_params()
        vectors = check_array(self.vectors, dtype=np.float64, input_name="vectors")
        coef = check_array(self.coef, dtype=np.float64, ensure_2d=False, input_name="coef")
        if coef.shape != (len(vectors),):
            raise ValueError(
                f"coef must hold one number for each of the {len(vectors)} vectors, got an array of"
                f" shape {coef.shape}."
            )
        if self.classes_.shape != (2,):
            raise ValueError(f"classes must name two classes, got {self.classes!r}.")
        if self.kernel == "normalised_poly" and self.coef0 < 0:
            raise ValueError("kernel='normalised_poly' needs a coef0 of at least 0.")
        return vectors, coef

    def __sklearn_is_fitted__(self) -> bool:
        """Tell that there is nothing to fit."""
        return True

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the exact decision for each query, in double precision.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        decisions : array of shape (n_queries,)
            Positive for the second class.
        """
        vectors, coef = self.checked()
        queries = check_array(X, dtype=np.float64)
        parameters: dict[str, Any] = {}
        name: str = self.kernel
        if name == "normalised_poly":
            lift = Lift(self.gamma, self.coef0)
            vectors, queries, name = lift(vectors), lift(queries), "poly"
            parameters = {"gamma": 1.0, "coef0": 0.0, "degree": self.degree}
        elif name != "linear":
            parameters = {"gamma": self.gamma}
            if name != "rbf":
                parameters["coef0"] = self.coef0
            if name == "poly":
                parameters["degree"] = self.degree

        def decide(part: NDArray[Any]) -> NDArray[np.float64]:
            return pairwise_kernels(part, vectors, metric=name, **parameters) @ coef + self.bias

        return in_chunks(decide, queries, 16 * len(vectors))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)

        Returns
        -------
        labels : array of shape (n_queries,)
        """
        return self.classes_[(self.decision_function(X) > 0).astype(np.intp)]
