"""The questions, by their paths: each declared in a file of its own, read by every interface (`question.Question`)."""

from __future__ import annotations

from darrm_opt.questions.compare import Compare
from darrm_opt.questions.compose import Compose
from darrm_opt.questions.cost import Calibrate, Cost
from darrm_opt.questions.curve import Curve
from darrm_opt.questions.least import Least
from darrm_opt.questions.plan import PluralityOptions, ReleasePlan
from darrm_opt.questions.profile import Profile
from darrm_opt.questions.question import Question
from darrm_opt.questions.table import Plurality, TableQuestion
from darrm_opt.questions.tradeoff import TradeoffQuestion
from darrm_opt.questions.verify import Verify

_OF_ONE_DESIGN = (Verify, Curve, TradeoffQuestion, Least, Profile)

_OF_CLASSES = (Plurality, TableQuestion)

_OF_MANY_RELEASES = (Compare, ReleasePlan, Compose, Cost, Calibrate, PluralityOptions)

_ALL: tuple[type[Question], ...] = (*_OF_ONE_DESIGN, *_OF_CLASSES, *_OF_MANY_RELEASES)

QUESTIONS: dict[str, type[Question]] = {question.path: question for question in _ALL}  # questions, by their paths
