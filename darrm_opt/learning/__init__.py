"""Learning with a private vote: estimators for scikit-learn (the extra ``sklearn``).

release_plan         which release fits K voters, a total budget and a number of queries, and why
logistic_regression  `PrivateLogisticRegression`: a voter that is private itself, with its proof
classifier           `PrivateVotingClassifier`: split, train, vote, release within a budget; any number of classes
"""

from darrm_opt.optional_packages import needed_by

with needed_by("darrm_opt.learning"):
    from darrm_opt.learning.classifier import PrivateVotingClassifier
    from darrm_opt.learning.logistic_regression import PrivateLogisticRegression
    from darrm_opt.learning.release_plan import VotingPlan, voting_plan

__all__ = ["PrivateLogisticRegression", "PrivateVotingClassifier", "VotingPlan", "voting_plan"]
