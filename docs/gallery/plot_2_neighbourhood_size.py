"""
How large should neighbourhoods be?
===================================

The size k of the neighbourhoods is the parameter that matters most. Too few points, and a machine
follows the noise; too many, and it costs more and is less local.
"""

# %%
# Here machines of 10 to 2,560 points learn the two spirals from 20,000 points. No classifier can
# get more than 88.5 % of new points right.

from time import perf_counter

import matplotlib.pyplot as plt

from vicinal import FaLKSVC
from vicinal.datasets import make_two_spirals

X, y = make_two_spirals(20_000, random_state=0)
X_new, y_new = make_two_spirals(20_000, random_state=1)

sizes = [10, 20, 40, 80, 160, 320, 640, 1280, 2560]
found = {}
for kernel in ("rbf", "linear"):
    found[kernel] = []
    for k in sizes:
        model = FaLKSVC(n_neighbors=k, kernel=kernel, gamma_percentile=90)
        start = perf_counter()
        model.fit(X, y)
        seconds = perf_counter() - start
        found[kernel].append((model.score(X_new, y_new), seconds))

# %%
# With the RBF kernel, accuracy rises, stays near the optimum for a wide range of k, and falls
# late: a machine can bend its boundary, so a large neighbourhood is not soon too large. A linear
# machine cannot. It is as good while the piece of the spiral that it sees is nearly straight, and
# then fails.

figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(6.4, 6), layout="constrained")
for kernel, style in (("rbf", "o-"), ("linear", "s--")):
    accuracy, seconds = zip(*found[kernel], strict=True)
    above.semilogx(sizes, accuracy, style, label=kernel)
    below.semilogx(sizes, seconds, style, label=kernel)
above.axhline(0.885, color="grey", linewidth=1, label="attainable")
above.set(ylabel="accuracy on new points")
above.legend()
below.set(xlabel="k, points in a neighbourhood", ylabel="seconds to fit")
below.set_xticks(sizes, sizes)
below.minorticks_off()

# %%
# The time to fit hardly changes at first: larger neighbourhoods make larger machines, but fewer
# of them. From some hundred points on, the cost of a machine grows faster than their number
# falls. On most data, that is also a good size to start with.
