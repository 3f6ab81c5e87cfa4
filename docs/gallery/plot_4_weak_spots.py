"""
Where is the model weak?
========================

One number for the accuracy hides where the errors are. A local model can tell, because every query
is answered by one machine.
"""

# %%
# The centre of the spirals is the hard part: there the arms are close together, and few machines
# must follow many turns.

import numpy as np

from vicinal import FaLKSVC
from vicinal.datasets import make_two_spirals
from vicinal.inspection import LocalModelsDisplay, RoutingDisplay

X, y = make_two_spirals(20_000, random_state=0)
X_new, y_new = make_two_spirals(20_000, random_state=1)
model = FaLKSVC(n_neighbors=1000, gamma_percentile=90).fit(X, y)

# %%
# A dot for each machine: how many of the new points it answered, and how many of those correctly.
# The band is where nine of ten machines would lie if all were equally good; those below it are
# weak.

display = RoutingDisplay.from_estimator(model, X_new, y_new)

# %%
# The weakest machines have numbers, and a number has a place. Where are they?

for machine in display.weakest[:3]:
    where = np.round(X[model.centres_[machine]], 1)
    print(f"machine {machine}: centre {where}, accuracy {display.accuracy[machine]:.1%}")

# %%
# All of them lie in the middle. With 1,000 points in a neighbourhood, one machine has to learn
# several turns at once.

middle = (-2, 2, -2, 2)
layers = ("regions", "points", "centres")
LocalModelsDisplay.from_estimator(model, X, y, region=middle, layers=layers)

# %%
# Smaller neighbourhoods help there, and do no harm elsewhere.

local = FaLKSVC(n_neighbors=200, gamma_percentile=90).fit(X, y)
inside = np.abs(X_new).max(axis=1) < 2
for name, each in (("k = 1000", model), ("k = 200", local)):
    print(
        f"{name:9} middle {each.score(X_new[inside], y_new[inside]):.1%},"
        f" elsewhere {each.score(X_new[~inside], y_new[~inside]):.1%}"
    )
