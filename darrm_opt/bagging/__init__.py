"""Bagging: privacy of models trained on random subsamples, and the number of models that one record affects."""
