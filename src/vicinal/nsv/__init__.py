"""Nearest support vectors: kernel machines evaluated only as far as each query needs."""

from vicinal.nsv.classifier import NSVClassifier
from vicinal.nsv.fidelity import Fidelity
from vicinal.nsv.kernel_machine import KernelMachine

__all__ = ["Fidelity", "KernelMachine", "NSVClassifier"]
