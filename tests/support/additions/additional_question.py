"""A question in one file: the sum of the votes of two equal voters, as an example."""

from typing import Any, ClassVar

from darrm_opt.answers import Report
from darrm_opt.errors import InvalidInput, VerificationFailed
from darrm_opt.questions.question import Answer, answer_field, question_field
from darrm_opt.questions.voters import PublicQuestion


class PairsAnswer(Answer):
    """Number of pairs."""

    pairs: int = answer_field("Pairs of voters.")
    share: float = answer_field("Of all pairs, those in which a record is.")

    def record(self) -> dict[str, Any]:
        return {"pairs": self.pairs, "share": self.share}


class Pairs(PublicQuestion):
    """How many pairs of voters are there?"""

    path: ClassVar[str] = "pairs"
    tag: ClassVar[str] = "accounting"
    summary: ClassVar[str] = "Pairs of voters"
    answers: ClassVar[Any] = PairsAnswer

    K: int = question_field(least=2)  # `affected` is inherited

    @property
    def voters(self) -> int:
        return self.K

    @property
    def seconds(self) -> float:
        return 0.01

    def check(self) -> None:
        if self.K == 13:
            raise InvalidInput("K", self.K, "another number")

    def answer(self, report: Report = lambda _: None) -> PairsAnswer:
        report(None)
        pairs, without = (count * (count - 1) // 2 for count in (self.K, self.K - self.affected))
        return PairsAnswer(pairs=pairs, share=1 - without / pairs)

    def verify(self, given: Any) -> PairsAnswer:
        own = self.answer()
        if given != own.record():
            raise VerificationFailed("The answer has another number of pairs.")
        return own
