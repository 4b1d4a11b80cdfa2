"""Learning with a private majority: estimators for scikit-learn (the extra ``sklearn``).

release_plan         which release fits K voters, a total budget and a number of queries, and why
logistic_regression  `PrivateLogisticRegression`: a voter that is private itself, with its proof
release_budgets      what predictions are charged to: a counter in memory, or a release log
voting_classifier    `PrivateVotingClassifier`: split, train, vote; the base of both classifiers
classifier           `PrivateMajorityClassifier`: release the majority within a budget
plurality            `PrivatePluralityClassifier`: the same for any number of classes
"""

from darrm_opt.optional_packages import needed_by

with needed_by("darrm_opt.learning"):
    from darrm_opt.learning.classifier import PrivateMajorityClassifier
    from darrm_opt.learning.logistic_regression import PrivateLogisticRegression
    from darrm_opt.learning.plurality import PrivatePluralityClassifier
    from darrm_opt.learning.release_plan import VotingPlan, voting_plan

__all__ = [
    "PrivateLogisticRegression",
    "PrivateMajorityClassifier",
    "PrivatePluralityClassifier",
    "VotingPlan",
    "voting_plan",
]
