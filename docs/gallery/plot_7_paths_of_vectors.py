"""
Paths of learnt vectors
=======================

A machine of few vectors learns where they have to stand. One can watch.
"""

# %%
# Four clusters, each a class of its own, and four vectors that begin in the wrong place.

import numpy as np
from sklearn.datasets import make_blobs

from vicinal import PSKClassifier
from vicinal.inspection import VectorPathsDisplay

X, y = make_blobs(400, centers=[[-3, -3], [-3, 3], [3, -3], [3, 3]], random_state=0)
far = np.array([[-0.5, -7.0], [0.5, 7.0], [0.0, -1.0], [7.0, 0.0]])
model = PSKClassifier(init=far, C=10, gamma=0.1)

# %%
# Squares are where the vectors start, circles where they end. Each finds a cluster, and with every
# step the objective falls, which the vectors follow downhill.

display = VectorPathsDisplay.from_estimator(model, X, y)

# %%
# The picture shows a copy. The model itself is trained as always, and now answers from its four
# vectors.

print(f"{model.fit(X, y).score(X, y):.1%} of the points right, from {model.n_vectors_} vectors")
