"""Models trained on parts of the data: who sees which record, what that costs, and the teachers themselves.

claims, guarantee  the number of models that one record affects, for random subsamples
bags               the privacy of models trained on random subsamples
teacher_layout     which chunk of which partition a record belongs to
teachers           one model per chunk, trained on that chunk and on nothing else
"""
