"""Model files that execute nothing when they are read."""

from vicinal.io.container import ModelFormatError
from vicinal.io.files import ModelFile, describe, load, save

__all__ = ["ModelFile", "ModelFormatError", "describe", "load", "save"]
