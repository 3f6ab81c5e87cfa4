"""The local family: one small machine for each neighbourhood.

    arrays -> Problem -> index -> Cover -> Machines -> Route          fit
    arrays -> Route -> Machines -> votes -> labels                    predict

The estimators hold no algorithm: `falk`, `selection` and `lazy` check parameters and call `cover`,
`machines`, `search` and `route` in order.
"""

from vicinal.local.falk import FaLKSVC, FastLSVC
from vicinal.local.lazy import KNNSVC
from vicinal.local.selection import FaLKSVCCV

__all__ = ["KNNSVC", "FaLKSVC", "FaLKSVCCV", "FastLSVC"]
