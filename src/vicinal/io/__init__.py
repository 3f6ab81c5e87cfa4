"""Model files that execute nothing when they are read."""

from vicinal.io.container import ModelFormatError
from vicinal.io.files import ModelFile, describe, load, save
from vicinal.io.onnx import to_onnx

__all__ = ["ModelFile", "ModelFormatError", "describe", "load", "save", "to_onnx"]
