"""Models for runtimes without Python."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from vicinal.io.kinds import SCALERS
from vicinal.ldkl import LDKLClassifier, LDKLRegressor
from vicinal.local import KNNSVC
from vicinal.local.covered import CoveredClassifier
from vicinal.local.model import LocalModel
from vicinal.neighbors import CoverTreeClassifier
from vicinal.nsv import NSVClassifier
from vicinal.nsv.expansion import Expansion
from vicinal.sparse import ReducedSetClassifier
from vicinal.sparse.base import SparseClassifier

if TYPE_CHECKING:
    import onnx

    from vicinal.io.onnx_graph import Graph

OPSET, IR_VERSION = 17, 8

_MOST_BYTES = 2_000_000_000  # of a file: protocol buffers end at two gigabytes


def to_onnx(model: BaseEstimator) -> onnx.ModelProto:
    """Return a fitted model as an ONNX graph.

    The graph has an input ``X`` of doubles, a row for each query, and two outputs: ``label``, what
    `predict` returns, and ``decision``, what `decision_function` returns. Labels are int64, double,
    bool or string tensors, after the kind of `classes_`. A regressor has one output instead,
    ``prediction``.

    Parameters
    ----------
    model : FaLKSVC, FastLSVC, FaLKSVCCV, NSVClassifier, PSKClassifier, RSVMClassifier, \
SKLAClassifier, ReducedSetClassifier, LDKLClassifier, LDKLRegressor or Pipeline
        A local model must have one machine, or be trained with ``routing="centre"``, which needs no
        training set to find the machine for a query. A :class:`sklearn.pipeline.Pipeline` may have
        a ``StandardScaler``, ``MinMaxScaler``, ``MaxAbsScaler`` or ``RobustScaler`` before it, or
        several of them. Of an ``NSVClassifier`` it is the exact machine: operators on whole
        matrices gain nothing by stopping early.

    Returns
    -------
    graph : onnx.ModelProto
        Of operator set 17. Its metadata name the class of the model and its parameters.

    Raises
    ------
    ValueError
        If the model finds its machines by the training set, or a step of the pipeline is unknown.

    Notes
    -----
    Labels are those of `predict` but where single precision leaves a tie: the graph works in double
    precision on the points of the model, so its decisions differ from ours by our rounding. For
    queries thousands of times farther out than the training data, that decides between centres.

    Cast float32 queries to double. That loses nothing, but scikit-learn's scalers work in single
    precision on such data.

    Nothing is checked: a query that holds a NaN gets any label.

    Queries are answered machine by machine, so ask for many at a time. The nearest centre is found
    by comparing a query with all of them.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FaLKSVC, to_onnx
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = FaLKSVC(n_neighbors=100, routing="centre").fit(X, y)
    >>> graph = to_onnx(model)

    ``onnx.save(graph, "model.onnx")`` keeps it in a file. To run it here:

    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(graph.SerializeToString())
    >>> label, decision = session.run(None, {"X": X})
    >>> bool((label == model.predict(X)).all())
    True
    """
    try:
        from onnx import helper
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install 'vicinal[onnx]'") from error
    from vicinal.io import onnx_parts as parts
    from vicinal.io.onnx_graph import Graph

    *scalers, estimator = _steps(model)
    scalers += getattr(estimator, "steps_", ())
    if isinstance(estimator, NSVClassifier):
        check_is_fitted(estimator)
        scalers += estimator._subject.steps
    _check(scalers, estimator)

    g = Graph()
    X = "X"
    for scaler in scalers:
        X = parts.scaled(g, scaler, X)
    answers = (_predict if isinstance(estimator, LDKLRegressor) else _classify)(g, estimator, X)

    n_bytes = sum(constant.ByteSize() for constant in g.constants)
    if n_bytes > _MOST_BYTES:
        raise ValueError(
            f"this model takes {n_bytes:,} bytes, and an ONNX file holds two billion: keep it in"
            " the format of vicinal.save."
        )

    def declared(name: str, dtype: DTypeLike, *columns: int) -> onnx.ValueInfoProto:
        of_onnx = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, of_onnx, ["N", *columns])

    graph = helper.make_graph(
        g.nodes,
        "vicinal",
        [declared("X", np.float64, estimator.n_features_in_)],
        [declared(*answer) for answer in answers],
        initializer=g.constants,
    )
    out: onnx.ModelProto = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="vicinal",
        producer_version=version("vicinal"),
        doc_string=_description(estimator),
    )
    helper.set_model_props(out, _metadata(estimator))
    return out


def _classify(g: Graph, classifier: Any, X: str) -> list[tuple[Any, ...]]:
    """Append the answers of a classifier; return name, type and number of columns of each."""
    from vicinal.io import onnx_early as early
    from vicinal.io import onnx_parts as parts
    from vicinal.io.onnx_ldkl import scored

    classes = _label_values(classifier.classes_)
    n_classes = len(classes)
    if isinstance(classifier, NSVClassifier):
        decisions = [early.decided(g, _one_machine(classifier), X)]
    elif isinstance(classifier, LDKLClassifier):
        scores = scored(g, classifier.model_, X)
        decisions = [scores] if n_classes > 2 else parts.columns(g, scores, 1)
    elif isinstance(classifier, ReducedSetClassifier | SparseClassifier):
        expansion = classifier.expansion_
        outputs = parts.expanded(g, expansion, X)
        one_a_class = expansion.n_outputs == n_classes and isinstance(classifier, SparseClassifier)
        decisions = [outputs] if one_a_class else parts.columns(g, outputs, expansion.n_outputs)
    else:
        models = classifier.models_
        queries = parts.framed(g, models[0].problem.frame, X)
        decisions = [parts.decided(g, each, queries) for each in models]
    if len(decisions) > 1:
        decisions = [parts.voted(g, decisions, n_classes)]
    g("Identity", *decisions, output="decision")
    if isinstance(classifier, NSVClassifier) and classifier._votes_decide:
        codes = early.winners(g, "decision")
    else:
        codes = parts.winners(g, "decision", n_classes)
    g("Gather", classes, codes, output="label")
    columns = [n_classes] if n_classes > 2 else []
    return [("label", classes.dtype), ("decision", np.float64, *columns)]


def _predict(g: Graph, regressor: LDKLRegressor, X: str) -> list[tuple[Any, ...]]:
    """Append the answer of a regressor; return its name and type."""
    from vicinal.io import onnx_parts as parts
    from vicinal.io.onnx_ldkl import scored

    (score,) = parts.columns(g, scored(g, regressor.model_, X), 1)
    scaled = g("Mul", score, np.float64(regressor.target_scale_))
    g("Add", scaled, np.float64(regressor.target_mean_), output="prediction")
    return [("prediction", np.float64)]


def _steps(model: Any) -> list[Any]:
    """Return the steps of a pipeline, and of pipelines in it."""
    if not isinstance(model, Pipeline):
        return [model]
    steps = [step for _, step in model.steps if step is not None and step != "passthrough"]
    return [each for step in steps for each in _steps(step)]


def _check(scalers: list[Any], classifier: Any) -> None:
    """Raise unless a graph can hold the model."""
    for scaler in scalers:
        if type(scaler) not in SCALERS:
            raise ValueError(
                f"to_onnx knows no {type(scaler).__qualname__}: before the classifier it takes"
                f" {', '.join(kind.__name__ for kind in SCALERS)}. Export the other steps apart."
            )
        check_is_fitted(scaler)
    if isinstance(classifier, KNNSVC | CoverTreeClassifier):
        raise ValueError(
            f"{type(classifier).__qualname__} answers from its training set, which to_onnx leaves"
            " out: train a FaLKSVC with routing='centre', or keep the model in the format of"
            " vicinal.save."
        )
    if isinstance(classifier, NSVClassifier):
        return
    if isinstance(classifier, ReducedSetClassifier | SparseClassifier):
        check_is_fitted(classifier, "expansion_")
        return
    if isinstance(classifier, LDKLClassifier | LDKLRegressor):
        check_is_fitted(classifier, "model_")
        return
    if not isinstance(classifier, CoveredClassifier):
        raise ValueError(
            "to_onnx takes a FaLKSVC, FastLSVC, FaLKSVCCV, NSVClassifier, PSKClassifier,"
            " RSVMClassifier, SKLAClassifier, ReducedSetClassifier, LDKLClassifier or"
            " LDKLRegressor, or a Pipeline that ends in one; got a"
            f" {type(classifier).__qualname__}."
        )
    check_is_fitted(classifier, "models_")
    if not all(map(_knows_the_way, classifier.models_)):
        raise ValueError(
            f"this {type(classifier).__qualname__} finds the machine for a query by its nearest"
            " training point, and to_onnx leaves the training set out: train a FaLKSVC with"
            " routing='centre', or keep the model in the format of vicinal.save."
        )


def _one_machine(classifier: NSVClassifier) -> Expansion:
    expansion = classifier.model_.expansion
    if not isinstance(expansion, Expansion):
        raise ValueError(
            "a graph has the exact sums, and those of this NSVClassifier are its cover's: give"
            " to_onnx the estimator_ itself."
        )
    return expansion


def _knows_the_way(model: LocalModel) -> bool:
    """Whether the route compares queries with no more points than there are machines."""
    return len(model.machines) == 1 or len(model.route.machine_of) == len(model.machines)


def _label_values(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes as ONNX has them."""
    values = np.array(classes.tolist())
    types = {"b": np.bool_, "i": np.int64, "f": np.float64, "U": np.object_}
    if values.dtype.kind not in types:
        raise ValueError(
            f"labels like {classes[0]!r} have no place in ONNX: train with strings, integers that"
            " fit into 64 bits, floats or booleans."
        )
    return values.astype(types[values.dtype.kind])


def _description(classifier: Any) -> str:
    if isinstance(classifier, NSVClassifier):
        what = f"the exact machine of {classifier.n_support_:,} vectors"
    elif isinstance(classifier, LDKLClassifier | LDKLRegressor):
        machines = len(classifier.model_.forest.gates)
        what = f"{machines:,} gated linear machine{'s' if machines > 1 else ''}"
    elif isinstance(classifier, ReducedSetClassifier | SparseClassifier):
        what = f"a kernel machine of {classifier.n_vectors_:,} vectors"
    else:
        machines = classifier.n_machines_
        what = f"{machines:,} local support vector machine{'s' if machines > 1 else ''}"
    if isinstance(classifier, LDKLRegressor):
        return f"LDKLRegressor of vicinal: {what}. X: queries, one a row. prediction: of each."
    return (
        f"{type(classifier).__name__} of vicinal: {what} for {len(classifier.classes_)} classes."
        " X: queries, one a row. label: the class of each. decision: positive for the second of two"
        " classes; for more, a column of votes or outputs for each."
    )


def _metadata(classifier: BaseEstimator) -> dict[str, str]:
    parameters = classifier.get_params(deep=False)
    return {
        "class": type(classifier).__name__,
        "parameters": json.dumps(parameters, default=repr),
    }
