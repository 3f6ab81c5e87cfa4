"""
Few dot products for a curved boundary
======================================

:class:`~vicinal.LDKLClassifier` walks down a tree of linear machines. What does each level buy?
"""

# %%
# Two pairs of moons, one above the other, and somewhat mixed.

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from vicinal import LDKLClassifier

X, y = make_moons(6000, noise=0.2, random_state=0)
X[3000:, 1] += 1.6
X = (X - X.mean(axis=0)) / X.std(axis=0)
X, X_new, y, y_new = train_test_split(X, y, train_size=1000, random_state=0)

# %%
# A tree of depth 2 has three nodes, of which a query meets two: five dot products. Each further
# level costs three. Within a leaf the boundary may bend, too, for gates multiply the machines.
# Small trees vary from start to start, so the best of eight is kept.

figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained", sharey=True)
for depth, ax in zip((2, 3, 4), axes, strict=True):
    model = LDKLClassifier(depth, n_init=8, random_state=0).fit(X, y)
    DecisionBoundaryDisplay.from_estimator(
        model, X, response_method="predict", grid_resolution=300, alpha=0.3, ax=ax
    )
    ax.scatter(*X.T, c=y, s=3)
    accuracy = model.score(X_new, y_new)
    ax.set_title(f"depth {depth}, cost {model.cost_:.0f}: {accuracy:.1%}", fontsize="medium")

# %%
# Other machines at the same price. A linear machine costs one dot product; one on m random
# features, or on kernel values with m training points, costs m; a support vector machine, as many
# as it has vectors.

costs = (2, 5, 8, 11, 14, 17, 20)


def accuracies(model_of_cost):
    """Return the accuracy of a model for each cost."""
    return [model_of_cost(cost).fit(X, y).score(X_new, y_new) for cost in costs]


def on_features(kind, cost):
    """Return a linear machine on approximate features of a kernel."""
    features = kind(gamma=1.0, n_components=cost, random_state=0)
    return make_pipeline(features, LogisticRegression(C=100))


figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
trees = accuracies(lambda cost: LDKLClassifier.from_budget(cost, n_init=8, random_state=0))
ax.plot(costs, trees, "o-", label="LDKL")
for kind, name in ((Nystroem, "Nyström"), (RBFSampler, "random features")):
    ax.plot(costs, accuracies(lambda cost, kind=kind: on_features(kind, cost)), "o-", label=name)
linear = LogisticRegression().fit(X, y).score(X_new, y_new)
ax.plot(1, linear, "s", label="linear")
svc = SVC(C=10, gamma=1.0).fit(X, y)
vectors = svc.n_support_.sum()
ax.axhline(svc.score(X_new, y_new), color="grey", ls="--", label=f"SVC, at {vectors}")
ax.set(xlabel="dot products a query", ylabel="accuracy")
ax.legend()

# %%
# For a device without Python, the tree becomes one file of C. Its beginning:

print("\n".join(model.to_c("moons").splitlines()[:16]))
