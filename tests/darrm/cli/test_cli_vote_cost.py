"""`darrm vote-cost`: the published settings, the way back from a budget, and what is refused."""

from __future__ import annotations

import pytest
from support.darrm_runner import refused, run, run_json

CONFIDENT = (
    "--checks",
    "640",
    "--check-sigma",
    "150",
    "--labels",
    "286",
    "--label-sigma",
    "40",
    "--delta",
    "1e-5",
)


def test_a_published_setting() -> None:
    found = run_json("vote-cost", *CONFIDENT)
    assert set(found) == {"counts_renyi", "labels_renyi", "labels_recursion"}
    assert found["counts_renyi"] == pytest.approx(2.7586, abs=1e-4)
    assert found["labels_renyi"] <= 2.16
    assert found["labels_recursion"]["epsilon"] <= 2.06
    assert found["labels_recursion"]["proved"] is True
    assert found["labels_recursion"]["method"] == "Gaussian comparison"
    shown = run("vote-cost", *CONFIDENT).stdout
    assert "640 checks at σ = 150, 286 labels at σ = 40; δ = 1e-05" in shown
    assert "2.758575" in shown  # 2.75857435, rounded up
    assert "Gaussian comparison" in shown


def test_noise_for_a_budget() -> None:
    asked = ("--labels", "100", "--checks", "200", "--check-ratio", "3", "--delta", "1e-6", "--classes", "2")
    found = run_json("vote-cost", *asked, "--total-epsilon", "4")
    assert found["labels_recursion"]["epsilon"] <= 4
    assert found["check_sigma"] == pytest.approx(3 * found["label_sigma"])
    back = run_json(
        "vote-cost",
        *("--labels", "100", "--label-sigma", str(found["label_sigma"]), "--classes", "2", "--delta", "1e-6"),
        *("--checks", "200", "--check-sigma", str(found["check_sigma"])),
    )
    assert back["labels_recursion"] == found["labels_recursion"]


def test_discrete_noise_has_its_own_account() -> None:
    asked = ("--labels", "50", "--label-sigma", "6", "--delta", "1e-5", "--classes", "2")
    assert (
        run_json("vote-cost", *asked)["labels_recursion"]["epsilon"]
        < run_json("vote-cost", *asked, "--noise", "discrete")["labels_recursion"]["epsilon"]
    )
    assert "noisy counts, exact" not in run("vote-cost", *asked, "--noise", "discrete").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--labels", "3", "--delta", "1e-5"), "--label-sigma is missing"),
        (("--labels", "3", "--label-sigma", "1"), "--delta is missing"),
        (("--checks", "3", "--check-sigma", "-1", "--delta", "1e-5"), "--check-sigma: -1 is not valid"),
        (("--labels", "0.5", "--label-sigma", "1", "--delta", "1e-5"), "--labels: 0.5 is not valid"),
        (
            ("--labels", "3", "--label-sigma", "1", "--delta", "1e-5", "--classes", "1"),
            "--classes: 1 is not valid",
        ),
        (("--labels", "3", "--label-sigma", "1", "--delta", "1e-5", "--noise", "flat"), "--noise"),
        (("--labels", "3", "--label-sigma", "1", "--delta", "1e-5", "--total-epsilon", "1"), "--label-sigma"),
        (("--delta", "1e-5", "--total-epsilon", "1"), "--labels: 0 is not valid"),
        (("--labels", "3", "--delta", "1e-5", "--total-epsilon", "-1"), "--total-epsilon"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("vote-cost", *arguments)


def test_nothing_released() -> None:
    assert run_json("vote-cost", "--delta", "1e-5")["labels_recursion"]["epsilon"] == 0
    assert run("vote-cost", "--delta", "1e-5").stdout.startswith("nothing; δ = 1e-05")
