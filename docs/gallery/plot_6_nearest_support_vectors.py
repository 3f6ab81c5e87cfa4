"""
How far must one look?
======================

:class:`~vicinal.NSVClassifier` answers for a trained machine, and looks at as few of its
support vectors as each query needs. Easy queries need none.
"""

# %%
# A machine for handwritten digits: is it odd or even?

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC
from sklearn.utils import shuffle

from vicinal import NSVClassifier
from vicinal.inspection import StoppingDisplay

X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
odd = np.where(y % 2, "odd", "even")
X_new, odd_new = X[1000:], odd[1000:]
svc = SVC(C=10)

# %%
# As in the paper that the method comes from: partial sums of the nearest support vectors, taken in
# turn from either class. A query stops where its sum lies outside the thresholds, which narrow as
# less and less remains to be added. Those that go on for long are those whose exact output is near
# 0.

paper = {"start": "bias", "order": "tug_of_war", "max_steps": 1000, "linear_filter": False}
model = NSVClassifier(svc, max_disagreement=None, random_state=0, **paper)
model.fit(X[:1000], odd[:1000])
StoppingDisplay.from_estimator(model, X_new)
print(f"{model.n_touched(X_new).mean():.0f} of {model.n_support_} vectors touched on average")

# %%
# By default the sums start at approximations of all terms, and each vector replaces the
# approximation of its own. Most queries need no vector at all.

model = NSVClassifier(svc, max_disagreement=0.01, random_state=0).fit(X[:1000], odd[:1000])
display = StoppingDisplay.from_estimator(model, X_new)
print(f"{model.n_touched(X_new).mean():.0f} of {model.n_support_} vectors touched on average")
print(f"{display.changed.mean():.2%} of the labels changed")
