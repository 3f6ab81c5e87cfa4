"""
What a selection finds
======================

:class:`~vicinal.FaLKSVCCV` tries sizes, penalties and kernel widths on a few neighbourhoods. One
can look at what it saw.
"""

# %%
# Every candidate is a size k, a C and a percentile that sets the kernel's width. It is
# cross-validated on neighbourhoods around random points, and then one model is trained with the
# best.

from vicinal import FaLKSVCCV
from vicinal.datasets import make_two_spirals
from vicinal.inspection import SelectionDisplay

X, y = make_two_spirals(20_000, random_state=0)
model = FaLKSVCCV(n_neighbors=(125, 250, 500, 1000), random_state=0).fit(X, y)
print(model.best_params_)

# %%
# A map for each size that was tried. In a race, candidates that are clearly behind are dropped
# early (hatched), and a larger size is tried only while it seems to be worth its cost.

display = SelectionDisplay.from_estimator(model)

# %%
# Candidates far apart on the map are nearly as good as the winner, so the exact values hardly
# matter here. Another ``random_state`` may choose another of them.

X_new, y_new = make_two_spirals(20_000, random_state=1)
print(f"{model.score(X_new, y_new):.1%} of new points right; 88.5 % is attainable")

# %%
# What each step took:

for step, entry in model.fit_report_.items():
    print(f"{step:10} {entry['seconds']:.2f} s")
