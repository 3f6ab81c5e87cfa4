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

N_NEIGHBOURHOODS_DRAWN = 4


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
    """Decision regions and centres on the left, a few neighbourhoods on the right."""
    import matplotlib.pyplot as plt

    figure, (whole, part) = plt.subplots(1, 2, figsize=(12, 6.3), layout="constrained")
    edge = np.quantile(np.abs(X), 0.999)
    panel(whole, model, X, y, low=-edge, high=edge, n_points=8000)
    whole.set_title(f"{model.n_machines_} machines: centres (black) and decisions")

    low, high = 0.02 * edge, 0.52 * edge
    panel(part, model, X, y, low=low, high=high, n_points=40_000)
    k = model.n_neighbors
    n_assigned = model.n_assigned or k // 2
    centres = X[model.centres_]
    radii = np.array(
        [np.sort(np.linalg.norm(X - centre, axis=1))[[k - 1, n_assigned - 1]] for centre in centres]
    )
    outer = radii[:, :1]
    inside = np.all((centres - outer > low) & (centres + outer < high), axis=1)
    for index in spread_out(centres[inside], N_NEIGHBOURHOODS_DRAWN):
        for radius, style in zip(radii[inside][index], ["-", "--"], strict=True):
            circle = plt.Circle(
                centres[inside][index], radius, fill=False, linestyle=style, linewidth=1.6
            )
            part.add_patch(circle)
    part.set_title(f"k = {k} train a machine (solid), k′ = {n_assigned} are covered (dashed)")
    figure.savefig(picture, dpi=100)


def panel(axes, model: FaLKSVC, X, y, *, low: float, high: float, n_points: int) -> None:
    """Decisions, some of the data and all centres in the square from low to high."""
    draw_regions(axes, model, (low, high), (low, high))
    some = np.random.default_rng(0).choice(len(X), n_points, replace=False)
    axes.scatter(*X[some].T, c=y[some], cmap="coolwarm", s=3, alpha=0.6, linewidths=0)
    axes.scatter(*X[model.centres_].T, s=12, c="black", linewidths=0)
    axes.set(xlim=(low, high), ylim=(low, high), xticks=[], yticks=[], aspect="equal")


def draw_regions(axes, model: FaLKSVC, x_range, y_range, resolution: int = 500) -> None:
    """Colour the plane by the predicted class."""
    grid = np.meshgrid(np.linspace(*x_range, resolution), np.linspace(*y_range, resolution))
    labels = model.predict(np.column_stack([axis.ravel() for axis in grid]))
    axes.imshow(
        labels.reshape(resolution, resolution),
        extent=(*x_range, *y_range),
        origin="lower",
        cmap="coolwarm",
        alpha=0.35,
        interpolation="nearest",
    )


def spread_out(points: np.ndarray, n: int) -> list[int]:
    """Which n of the points to show: each the farthest from those before it."""
    chosen = [0]
    while len(chosen) < min(n, len(points)):
        gaps = np.linalg.norm(points[:, None] - points[chosen], axis=2).min(axis=1)
        chosen.append(int(gaps.argmax()))
    return chosen


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "two_spirals.png")
