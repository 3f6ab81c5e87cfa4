"""Train FaLKSVC on 100,000 points of two noisy spirals, and draw what it made of them.

    python examples/two_spirals.py [picture.png]

Prints times and accuracy; the best accuracy any classifier can reach on this data is 88.5 %.
The picture needs matplotlib.
"""

import sys
import time

import numpy as np

from vicinal import FaLKSVC
from vicinal.datasets import make_two_spirals


def main(picture: str) -> None:
    X, y = make_two_spirals(100_000, random_state=0)
    X_test, y_test = make_two_spirals(100_000, random_state=1)

    model = FaLKSVC(n_neighbors=1000, C=1.0, n_jobs=-1)
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    accuracy = model.score(X_test, y_test)
    scored = time.perf_counter()

    print(f"training    {fitted - start:6.2f} s for {len(X):,} points")
    print(f"            {model.n_machines_:,} machines, {model.n_unanimous_:,} of one class only")
    print(f"prediction  {scored - fitted:6.2f} s for {len(X_test):,} points")
    print(f"accuracy    {accuracy:6.2%} (88.5 % is the best attainable)")

    try:
        import matplotlib
    except ImportError:
        print("picture     install matplotlib to have one drawn")
        return
    matplotlib.use("Agg")
    draw(model, X, y, picture)
    print(f"picture     {picture}")


def draw(model: FaLKSVC, X: np.ndarray, y: np.ndarray, picture: str) -> None:
    """Decision regions and centres on the left, neighbourhoods and routes on the right."""
    import matplotlib.pyplot as plt

    from vicinal.inspection import LocalModelsDisplay

    figure, (whole, part) = plt.subplots(1, 2, figsize=(11, 6.4), layout="constrained")
    edge = np.quantile(np.abs(X), 0.999)
    LocalModelsDisplay.from_estimator(
        model,
        X,
        y,
        region=(-edge, edge, -edge, edge),
        layers=["regions", "points", "centres"],
        ax=whole,
    )
    low, high = 0.02 * edge, 0.52 * edge
    region = low, high, low, high
    LocalModelsDisplay.from_estimator(model, X, y, region=region, n_points=3000, ax=part)
    for axes in (whole, part):
        axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
    figure.savefig(picture, dpi=100)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "two_spirals.png")
