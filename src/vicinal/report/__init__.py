"""Pages about fitted models: one HTML file each, which opens offline. They need matplotlib."""

from vicinal.report.model import model_report
from vicinal.report.page import Page

__all__ = ["Page", "model_report"]
