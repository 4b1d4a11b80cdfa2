"""Learning with a private vote: estimators for scikit-learn (the extra ``sklearn``)."""

from darrm_opt.optional_packages import needed_by

with needed_by("darrm_opt.learning"):
    from darrm_opt.learning.classifier import PrivateVotingClassifier
    from darrm_opt.learning.logistic_regression import PrivateLogisticRegression
    from darrm_opt.learning.release_plan import VotingPlan, voting_plan

__all__ = ["PrivateLogisticRegression", "PrivateVotingClassifier", "VotingPlan", "voting_plan"]
