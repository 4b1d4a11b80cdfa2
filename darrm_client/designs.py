"""Designs client: stored designs of a service, listed, tagged and compared."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from darrm_client.transport import Deadline
from darrm_opt.answers.verification import member, members, parse_problem, verify_gamma

if TYPE_CHECKING:
    from darrm_client.connect import ClientBackend


class DesignsClient:
    """Stored designs, as `DarrmClient.designs`. Tags are shared by all who use the service."""

    def __init__(self, backend: ClientBackend, timeout: float | None) -> None:
        self._backend, self._timeout = backend, timeout

    def list(
        self, *, K: int | None = None, epsilon: float | None = None, m: float | None = None, tag: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield stored designs, the newest first, as the REST interface has them: their numbers and tags, and no γ.

        A number or a tag that is given leaves the others out. A table file has no tags: `AnswerNotFound`.
        """
        parameters: dict[str, Any] = {"K": K, "epsilon": "inf" if epsilon == math.inf else epsilon, "m": m, "tag": tag}
        while True:
            query = urlencode({name: value for name, value in parameters.items() if value is not None})
            page = self._call("GET", f"?{query}" if query else "")
            designs = members(member(page, "designs"), list)
            yield from designs
            parameters["after"] = page.get("next")
            if not isinstance(parameters["after"], str):
                return

    def tag(self, id: str, tag: str) -> dict[str, Any]:
        """Give a stored design a tag, unless it has it; return its numbers and tags; raises as `list`."""
        return dict(self._call("PUT", f"/{quote(id, safe='')}/tags/{quote(tag, safe='')}"))

    def untag(self, id: str, tag: str) -> dict[str, Any]:
        """Take a tag from a stored design, if it has it; return its numbers and tags; raises as `list`."""
        return dict(self._call("DELETE", f"/{quote(id, safe='')}/tags/{quote(tag, safe='')}"))

    def compare(self, id: str, other: str) -> dict[str, Any]:
        """Return two stored designs side by side; this process proved each γ for the problem stated beside it."""
        answer = self._call("GET", f"/{quote(id, safe='')}/compare/{quote(other, safe='')}")
        for name in ("first", "second"):
            design = member(member(answer, name), "design")
            verify_gamma(member(design, "gamma"), parse_problem(member(design, "problem")))
        return dict(answer)

    def _call(self, method: str, path: str) -> Any:
        return self._backend.designs(method, path, Deadline.after(self._timeout))
