"""
Where is the model weak?
========================

One number for the accuracy hides where the errors are. A local model can tell, because every query
is answered by one machine.
"""

# %%
# Two spirals, and a model with large and rather smooth machines.

import matplotlib.pyplot as plt
import numpy as np

from vicinal import FaLKSVC
from vicinal.datasets import make_two_spirals
from vicinal.inspection import RoutingDisplay

X, y = make_two_spirals(20_000, random_state=0)
X_new, y_new = make_two_spirals(20_000, random_state=1)
model = FaLKSVC(n_neighbors=1000, gamma_percentile=90).fit(X, y)

# %%
# A dot for each machine: how many of the new points it answered, and how many of those correctly.
# The grey band is where the machines would lie if all were equally good; those below it are weak.

display = RoutingDisplay.from_estimator(model, X_new, y_new)

# %%
# A machine has a number, and a place. The weakest ones are all in the very middle:

for machine in display.weakest[:3]:
    centre = X[model.centres_[machine]].round(2)
    print(f"machine {machine}: centre {centre}, accuracy {display.accuracy[machine]:.1%}")

# %%
# Is that a fault of the model, or of the data? Another model may tell. Here is one with small
# neighbourhoods, and the accuracy of both at different distances from the middle.

other = FaLKSVC(n_neighbors=200, gamma_percentile=90).fit(X, y)
distance = np.linalg.norm(X_new, axis=1)
edges = np.array([0, 0.1, 0.3, 1, 2, 3, 4, 5, 6, 7, 8, 10])
rings = np.digitize(distance, edges) - 1
for each, style in ((model, "o-"), (other, "s--")):
    right = each.predict(X_new) == y_new
    accuracy = [right[rings == ring].mean() for ring in range(len(edges) - 1)]
    plt.plot((edges[1:] + edges[:-1]) / 2, accuracy, style, label=f"k = {each.n_neighbors}")
plt.xlabel("distance from the middle")
plt.ylabel("accuracy on new points")
plt.legend()

# %%
# In the middle both are equally bad: the arms are so close there that the classes mix, and no
# model can separate them. Farther out the two differ. There the large neighbourhoods cost
# accuracy, and that can be mended.
#
# So the weakest machines say where to look, and a second model whether it is worth the trouble.
