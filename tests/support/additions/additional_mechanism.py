"""A mechanism of an installed package, by the entry point in the adjacent folder."""

from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.noise import NoiseFunction


class Linear(NoiseFunctionMechanism):
    """γ that grows with the margin."""

    name = "linear"
    parameter = "slope"
    limits = (0.0, 1000.0)
    title = "linear"
    advice = "Release the majority with a probability that grows with its margin"

    def __init__(self, K: int, classes: int, slope: float, *, affected: int = 1) -> None:
        if classes != 2:
            raise InvalidInput("classes", classes, "2")
        gamma = [min(1.0, slope * abs(2 * ones - K) / K) for ones in range(K + 1)]
        super().__init__(NoiseFunction(gamma, K), affected=affected)
        self.slope = slope

    @property
    def words(self) -> str:
        """What the slope means."""
        return f"γ grows by {self.slope:.4g} times the margin."
