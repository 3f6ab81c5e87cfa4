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

    figure, (whole, part) = plt.subplots(1, 2, figsize=(12, 6), layout="constrained")
    points = np.random.default_rng(0).choice(len(X), 6000, replace=False)
    centres = X[model.centres_]

    limit = np.quantile(np.abs(X), 0.999)
    draw_regions(whole, model, (-limit, limit), (-limit, limit))
    whole.scatter(*X[points].T, c=y[points], cmap="coolwarm", s=2, alpha=0.5, linewidths=0)
    whole.scatter(*centres.T, s=8, c="black", linewidths=0)
    whole.set_title(f"{len(centres)} centres (black), their machines' decisions, some of the data")

    window = (limit / 4, limit), (limit / 4, limit)
    draw_regions(part, model, *window)
    inside = [np.all((row > window[0][0]) & (row < window[0][1])) for row in centres]
    shown = spread_out(centres[inside], N_NEIGHBOURHOODS_DRAWN)
    part.scatter(*centres.T, s=14, c="black", linewidths=0)
    for centre in shown:
        distances = np.sort(np.linalg.norm(X - centre, axis=1))
        n_assigned = model.n_assigned or model.n_neighbors // 2
        for k, style in [(model.n_neighbors, "-"), (n_assigned, "--")]:
            part.add_patch(
                plt.Circle(centre, distances[k - 1], fill=False, linestyle=style, linewidth=1.2)
            )
    part.set(xlim=window[0], ylim=window[1])
    part.set_title("some neighbourhoods: k points train (solid), k′ are owned (dashed)")

    for axes in (whole, part):
        axes.set_aspect("equal")
        axes.set(xticks=[], yticks=[])
    figure.savefig(picture, dpi=110)


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


def spread_out(points: np.ndarray, n: int) -> np.ndarray:
    """n of the points, each the farthest from those before it."""
    chosen = [0]
    while len(chosen) < min(n, len(points)):
        gaps = np.linalg.norm(points[:, None] - points[chosen], axis=2).min(axis=1)
        chosen.append(int(gaps.argmax()))
    return points[chosen]


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "two_spirals.png")
