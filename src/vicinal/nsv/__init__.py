"""Nearest support vectors: kernel machines evaluated only as far as each query needs.

In the making: what is here works and is tested, but names and defaults may still change, and model
files do not hold it yet.
"""

from vicinal.nsv.classifier import NSVClassifier
from vicinal.nsv.fidelity import Fidelity
from vicinal.nsv.kernel_machine import KernelMachine

__all__ = ["Fidelity", "KernelMachine", "NSVClassifier"]
