"""Releases of a noisy vote among any number of classes: of labels and checks, not of counts.

The pipeline: a bound on the power divergence of one release (`vote_release`, by `gaussian_argmax`, `noisy_bit`,
`discrete_gaussian_argmax`, or `composition.table_divergence` for laws known in full), then `composition` by Rényi
divergences or by the Gaussian comparison (`gaussian_comparison`). `pure_loss` has the largest losses, `sampled_argmax`
the laws of labels with sampled records, `data_dependent` the loss of labels given their votes.
"""
