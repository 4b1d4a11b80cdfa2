"""A backend, an objective, a baseline and a question added to their registries; a mechanism is in the next file.

Python imports this module when it starts, wherever its folder is on ``PYTHONPATH``: so the command line, the server and
the processes of its pool all know the additions, and nothing else in the product says their names.
"""

import sys
from types import ModuleType

from additional_question import Pairs  # type: ignore[import-not-found]  # by PYTHONPATH

from darrm_opt.baselines import subsampling
from darrm_opt.design.backends import BACKENDS, BackendEntry
from darrm_opt.design.backends.highs import Highs
from darrm_opt.design.objective import FAMILIES, ObjectiveFamily
from darrm_opt.planning.baselines import BASELINES
from darrm_opt.priors import SharedBeta
from darrm_opt.questions.registry import QUESTIONS


class Twin(Highs):
    """HiGHS under another name."""


_MODULE = ModuleType("darrm_opt.design.backends.twin")
_MODULE.Twin = Twin  # type: ignore[attr-defined]
sys.modules[_MODULE.__name__] = _MODULE
BACKENDS["twin"] = BackendEntry("Twin", "highspy", "highspy", "HiGHS under another name.")

FAMILIES["balanced"] = ObjectiveFamily(
    lambda a: SharedBeta(a, a), ("a",), (3.0,), "agreement", "All voters share one p ~ Beta(a, a)."
)

BASELINES["one_voter"] = lambda problem: None if (problem.m or 0) < 1 else subsampling(problem.K, 1)

QUESTIONS[Pairs.path] = Pairs
