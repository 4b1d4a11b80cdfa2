"""The driver of the campaigns: examination, reports, records and pages; and its use by all campaigns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns.driver import Campaign, Row, Tally, publish, read_record, table


def lines(tally: Tally) -> Iterator[str]:
    yield from table(("cases", "wrong"), [(len(tally.rows), len(tally.faults))])
    yield f"odd: {tally.kinds('parity')['odd']}, half: {sum(tally.values('half')):g} " + "and so on " * 20


class Numbers:
    """Cases that record their examination; every third one has a finding."""

    def __init__(self) -> None:
        self.examined: list[tuple[int, int]] = []
        self.campaign = Campaign("numbers", "Help.", "numbers", 5, self.examine, lines, verb="numbers")

    def examine(self, seed: int, number: int) -> Row:
        self.examined.append((seed, number))
        odd = number % 2 == 1
        return Row(
            ["divisible"] if number % 3 == 2 else [],
            ["parity: odd"] if odd else [],
            {} if odd else {"half": number / 2},
        )


def test_a_campaign_examines_its_cases_and_fails_if_anything_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = Numbers()
    assert numbers.campaign.main(["--seed", "7", "--first", "1"]) == 1
    assert numbers.examined == [(7, number) for number in range(1, 6)]
    out = capsys.readouterr().out
    assert out.startswith(
        "2: divisible\n5: divisible\n| cases | wrong |\n|---|---|\n| 5 | 2 |\nodd: 3, half: 3 and so on"
    )
    assert "`make numbers ARGS='--numbers 5 --seed 7 --first 1'`" in out
    assert numbers.campaign.main(["--numbers", "2"]) == 0
    assert Numbers().campaign.main(["--minutes", "0"]) == 0
    assert "| 0 | 0 |" in capsys.readouterr().out  # the time limit was reached before the first


def test_an_interrupted_campaign_is_resumed(tmp_path: Path) -> None:
    record, first, second = tmp_path / "record.jsonl", Numbers(), Numbers()
    assert first.campaign.main(["--numbers", "3", "--record", str(record)]) == 1
    with record.open("a", encoding="utf-8") as file:
        file.write('{"seed": 0, "num')  # interrupted
    assert [*read_record(record, 0)] == [0, 1, 2]
    assert read_record(record, 1) == {}
    assert second.campaign.main(["--record", str(record)]) == 1
    assert second.examined == [(0, 3), (0, 4)]
    assert [json.loads(line)["number"] for line in record.read_text(encoding="utf-8").splitlines()] == [0, 1, 2, 3, 4]


def test_a_result_replaces_the_former_one_in_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    publish("one", ["First."], page)
    page.write_text(f"# Title\n\n{page.read_text(encoding='utf-8')}\nProse.\n", encoding="utf-8")
    publish("two", ["Other."], page)
    publish("one", ["Again.", "", "| a table |"], page)
    assert page.read_text(encoding="utf-8") == (
        "# Title\n\n<!-- result of one -->\n\nAgain.\n\n| a table |\n\n<!-- end -->\n\nProse.\n\n"
        "<!-- result of two -->\n\nOther.\n\n<!-- end -->\n"
    )
