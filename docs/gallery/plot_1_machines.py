"""
Machines, centres and neighbourhoods
====================================

What does a fitted model consist of? On data with two features one can draw it.
"""

# %%
# Ten thousand points of two spirals, blurred so that no classifier can get more than 88.5 % of
# new points right, and a model with neighbourhoods of 200 points.

from vicinal import FaLKSVC
from vicinal.datasets import make_two_spirals
from vicinal.inspection import LocalModelsDisplay

X, y = make_two_spirals(10_000, random_state=0)
X_new, y_new = make_two_spirals(10_000, random_state=1)
model = FaLKSVC(n_neighbors=200, C=1.0, gamma_percentile=90).fit(X, y)
print(f"{model.n_machines_} machines, {model.score(X_new, y_new):.1%} of new points right")

# %%
# The colours are decisions, the black dots centres. Where the points are dense, centres are
# dense: a neighbourhood is a number of points, not a distance. The solid outlines hold the points
# that a machine was trained on, the dashed ones those that its centre covers.

display = LocalModelsDisplay.from_estimator(model, X, y)

# %%
# The lines in the next picture divide the places that different machines answer. Each machine is
# used near its centre only, where it knows the points on all sides. At a line the decisions of
# two machines meet. They were trained on many of the same points, and so they nearly agree.

LocalModelsDisplay.from_estimator(
    model,
    X,
    y,
    region=(0.2, 5.2, 0.2, 5.2),
    n_neighbourhoods=1,
    layers=("regions", "routes", "centres", "neighbourhoods"),
)
