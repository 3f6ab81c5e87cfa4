"""
When not to use it: irrelevant features
=======================================

Local machines find neighbours by distance, and a distance takes every feature as seriously as any
other. Trees look at one feature at a time and leave out those that do not help.
"""

# %%
# The two spirals, with more and more columns of noise beside the two that matter.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from vicinal import FaLKSVC
from vicinal.datasets import make_two_spirals

rng = np.random.default_rng(0)
X, y = make_two_spirals(6000, random_state=0)
noise = X.std() * rng.standard_normal((len(X), 16))
counts = [0, 1, 2, 4, 8, 16]
models = {
    "FaLKSVC": FaLKSVC(n_neighbors=200),
    "random forest": RandomForestClassifier(50, random_state=0),
}
for name, model in models.items():
    accuracy = []
    for count in counts:
        both = np.column_stack([X, noise[:, :count]])
        model.fit(both[:3000], y[:3000])
        accuracy.append(model.score(both[3000:], y[3000:]))
    plt.plot(counts, accuracy, "o-", label=name)
plt.axhline(0.5, color="grey", linewidth=1, label="guessing")
plt.xlabel("columns of noise beside the two that matter")
plt.ylabel("accuracy on new points")
plt.legend()

# %%
# Without noise, the local machines are ahead. A few columns of it are enough to turn that round:
# the neighbours of a point are then near in the noise, and far along the spiral. So drop the
# features that you know to be irrelevant, select among the others, or take trees.
