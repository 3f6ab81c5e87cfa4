"""Pictures of fitted models, as scikit-learn's displays. They need matplotlib."""

from vicinal.inspection.learning_curve import LearningCurve
from vicinal.inspection.local_models import LocalModelsDisplay
from vicinal.inspection.routing import RoutingDisplay
from vicinal.inspection.selection import SelectionDisplay
from vicinal.inspection.stopping import StoppingDisplay
from vicinal.inspection.vector_paths import VectorPathsDisplay

__all__ = [
    "LearningCurve",
    "LocalModelsDisplay",
    "RoutingDisplay",
    "SelectionDisplay",
    "StoppingDisplay",
    "VectorPathsDisplay",
]
