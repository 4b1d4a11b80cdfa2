"""The campaign of attacks in its short form: nothing of the polite client's is refused, whatever the others do."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns.attack import BEGINNING, NEIGHBOUR, SHORT, campaign


@pytest.mark.slow
def test_greedy_clients_do_not_stop_the_short_work_of_others(tmp_path: Path) -> None:
    findings = campaign(tmp_path, requests=5, queued=20, connections=50)
    assert [each.name for each in findings] == [*SHORT, NEIGHBOUR, BEGINNING]
    assert {each.refused for each in findings} == {0}
