"""Pages: complete, self-contained, escaped, and readable in a browser."""

from __future__ import annotations

from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.report.browser import contrast, look_at

from vicinal import KNNSVC, CoverTreeClassifier, FaLKSVC, FaLKSVCCV
from vicinal.report import Page, model_report
from vicinal.report.demo import demo
from vicinal.report.page import three_digits

matplotlib.use("Agg")
EMPTY = {"meta", "link", "img", "br", "hr", "input"}


class Reader(HTMLParser):
    """Collects a page's elements, and complains if they do not nest."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def check_self_contained(html):
    reader = Reader(html)
    assert not {tag for tag, _ in reader.elements} & {"script", "link", "iframe", "object", "embed"}
    names = []
    for _, attributes in reader.elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name.split(":")[-1] in ("src", "href", "srcset", "data", "action"):
                assert value.startswith(("data:", "#")), value[:80]
            if name == "id":
                names.append(value)
            if not name.startswith("xmlns"):
                assert "//" not in value or value.startswith("data:"), value[:80]
    assert len(names) == len(set(names))
    assert "@import" not in html
    for picture in reader.all("svg"):
        assert picture["role"] == "img"
        assert picture["aria-label"]
    return reader


@pytest.fixture(scope="module")
def spirals(tmp_path_factory):
    steps = []
    path = tmp_path_factory.mktemp("demo") / "demo.html"
    result = demo(path, n_samples=3000, n_jobs=1, on_step=steps.append)
    return result, steps


def test_demo(spirals):
    result, steps = spirals
    assert len(steps) >= 5
    names = ["FaLKSVC", "SVC", "KNeighborsClassifier", "HistGradientBoostingClassifier"]
    assert [row["model"] for row in result.rows] == names
    for row in result.rows:
        assert set(row) == {
            "model",
            "points",
            "fit_s",
            "predict_s",
            "accuracy",
            "machines",
            "support_vectors",
        }
        assert 0 < row["points"] <= 3000
        assert 0.5 < row["accuracy"] < 0.9
        assert row["fit_s"] > 0
        assert row["predict_s"] > 0
    assert result.rows[0]["machines"] > 1
    assert result.rows[0]["support_vectors"] > 0
    reader = check_self_contained(result.path.read_text(encoding="utf-8"))
    assert len(reader.all("figure")) == len(reader.all("svg")) == 4
    text = " ".join(reader.texts)
    assert all(name in text for name in names)
    assert "88.5" in text


@pytest.mark.parametrize(("width", "dark"), [(375, False), (375, True), (1200, False)])
def test_demo_in_a_browser(spirals, tmp_path, width, dark):
    html = spirals[0].path.read_text(encoding="utf-8")
    seen = look_at(html, tmp_path, width=width, dark=dark)
    assert seen["console"] == []
    assert seen["width"] <= width
    assert len(seen["pictures"]) == 4
    for left, right, height in seen["pictures"]:
        assert 0 <= left < right <= width
        assert right - left > 300
        assert height > 100
    assert len(seen["images"]) >= 4
    assert min(seen["images"]) > 100
    assert len(seen["decoded"]) == len(seen["images"])
    assert min(seen["decoded"]) > 100
    assert min(seen["label_heights"]) > 8
    papers = {paper for *_, paper in seen["letters"]}
    assert "none" not in papers
    for text, ink, paper in seen["letters"]:
        assert contrast(ink, paper) > 4.5, text
    brightest = max(papers, key=lambda paper: contrast(paper, "rgb(0, 0, 0)"))
    assert (contrast(brightest, "rgb(0, 0, 0)") < 3) == dark


def test_everything_is_escaped():
    nasty = "<script>alert('1')</script> & \"x\""
    page = Page(nasty, nasty, nasty).section(nasty).text(nasty)
    page.table({"a": nasty, "b": "number"}, [{"a": nasty, "b": 1234}, {"a": None}], caption=nasty)
    reader = check_self_contained(page.html())
    assert reader.texts.count(nasty) == 9
    assert "1,234" in reader.texts


def test_numbers_in_tables():
    page = Page("t").table(
        {"n": "n", "share": "share", "yes": "yes", "s": "seconds"},
        [{"n": 0.25, "share": 0.125, "yes": True, "s": 0.0016}],
        caption="numbers",
        formats={"share": ".1%", "s": three_digits},
        strong=[0],
    )
    html = page.html()
    assert '<tr class="strong"><td class="number">0.25</td>' in html
    assert "12.5\N{NO-BREAK SPACE}%" in html
    assert "<td>yes</td>" in html
    assert '<td class="number">0.0016</td>' in html


def report_of(model, *data):
    page = model_report(model, *data)
    reader = check_self_contained(page.html())
    return page, reader, " ".join(reader.texts)


def test_report_of_a_selected_model_with_data():
    X, y = make_moons(700, noise=0.25, random_state=0)
    names = y.astype(object)
    names[y == 0], names[y == 1] = "<b>$x_1", "&amp;"
    model = FaLKSVCCV((30, 60), C=(1, 8), gamma_percentile=(10, 50), n_centres=4, random_state=0)
    model.fit(X[:400], names[:400])
    page, reader, text = report_of(model, X[400:], names[400:])
    assert page.title == "FaLKSVCCV"
    n_maps = len(set(model.cv_results_["param_n_neighbors"]))
    assert len(reader.all("svg")) == 1 + n_maps + 2  # times, selection, routes and the map
    assert reader.all("b") == []
    assert "class <b>$x_1" in reader.texts
    assert f"{100 * model.score(X[400:], names[400:]):.2f}" in text
    assert f"{model.n_machines_:,}" in reader.texts
    assert "selection" in reader.texts


def test_report_of_a_pipeline_without_data():
    X, y = load_iris(return_X_y=True)
    _, reader, text = report_of(make_pipeline(StandardScaler(), FaLKSVC(40)).fit(X, y))
    assert "StandardScaler → FaLKSVC" in reader.texts
    assert len(reader.all("svg")) == 1
    assert "Where it is weak" not in text


@pytest.mark.parametrize(
    "model",
    [KNNSVC(40), CoverTreeClassifier(5), FaLKSVC(40, multi_class="global")],
    ids=["knn", "cover tree", "global"],
)
def test_report_of_models_without_one_cover(model):
    X, y = load_iris(return_X_y=True)
    page, reader, text = report_of(model.fit(X, y), X, y)
    assert page.title == type(model).__name__
    assert "Parameters" in text
    assert "n_jobs" not in text
    assert "Map" not in text
    right = model.predict(X) == y
    assert f"{100 * right.mean():.2f}\N{NO-BREAK SPACE}% of 150 points are answered right" in text
    assert {"as 0", "as 1", "as 2"} <= set(reader.texts)
    assert str(int(right[y == 1].sum())) in reader.texts


def test_report_of_many_classes():
    X = np.repeat(np.arange(25.0), 6)[:, None]
    y = X[:, 0].astype(int)
    model = CoverTreeClassifier(1).fit(X, y)
    truth = y.copy()
    truth[:3] = 7  # three points of class 0 are said to be of class 7
    html = model_report(model, X, truth).html()
    assert "The most frequent errors" in html
    assert '<tr><td>7</td><td>0</td><td class="number">3</td></tr>' in html


def test_reports_need_classes_to_compare():
    X, y = make_moons(60, random_state=0)
    with pytest.raises(ValueError, match="NearestNeighbors is no classifier"):
        model_report(NearestNeighbors().fit(X), X, y)
    with pytest.raises(ValueError, match="y holds text, and the classes of the model are numbers"):
        model_report(CoverTreeClassifier(1).fit(X, y), X, y.astype(str))
    with pytest.raises(ValueError, match="y holds no class of the model"):
        model_report(CoverTreeClassifier(1).fit(X, y), X, y + 5)


def test_data_without_classes_are_refused():
    X, y = make_moons(100, random_state=0)
    with pytest.raises(ValueError, match="come together"):
        model_report(FaLKSVC(20).fit(X, y), X)


def test_a_page_is_a_file(tmp_path):
    path = Page("t", "lead").write(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
