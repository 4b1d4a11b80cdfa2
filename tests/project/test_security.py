"""The security policy and the list of faults: they exist, are linked, and say of each fault what its reader needs."""

from __future__ import annotations

import re

import pytest
from support.paths import ROOT

POLICY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "vulnerabilities.md").read_text(encoding="utf-8")
FAULTS = dict(re.findall(r"^## (V-\d+): [^\n]+\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_the_policy_says_how_to_report_what_is_promised_and_what_is_supported() -> None:
    headings = re.findall(r"^## (.+)$", POLICY, re.MULTILINE)
    assert headings == ["Reporting a vulnerability", "What is promised", "Supported versions"]
    for promise in ("γ", "Totals", "Bits", "Budgets", "The service"):
        assert re.search(rf"^\d\. \*\*{promise}\*\*", POLICY, re.MULTILINE), promise


@pytest.mark.parametrize("document", ["README.md", "docs/security.md"])
def test_both_are_linked(document: str) -> None:
    linked = {
        target.rpartition("/")[2] for target in re.findall(r"\]\(([^)#\s]+)", (ROOT / document).read_text("utf-8"))
    }
    assert {"SECURITY.md", "vulnerabilities.md"} <= linked


def test_policy_and_page_lead_to_each_other_and_the_site_has_the_page() -> None:
    assert "(docs/vulnerabilities.md)" in POLICY
    assert "(docs/guarantees.md)" in POLICY
    assert "(../SECURITY.md)" in PAGE
    assert re.search(r"^ +- vulnerabilities\.md$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)


def test_the_table_names_every_fault_and_no_other() -> None:
    listed = re.findall(
        r"^\| \[(V-\d+)\]\(#v-\d+-[\w-]+\) \| [^|]+ \| [^|]+ \| (?:privacy|availability|access|a bound on utility) \|$",
        PAGE,
        re.MULTILINE,
    )
    assert listed == [*FAULTS]
    assert listed == [f"V-{number}" for number in range(1, len(listed) + 1)]
    assert ("**No vulnerability of a released version is known.**" in PAGE) == (not listed)


def test_a_fault_says_what_was_promised_what_is_true_and_what_is_done() -> None:
    for fault, text in FAULTS.items():
        for part in ("Promised", "True", "Now"):
            assert f"**{part}.**" in text, f"{fault}: {part}"
        assert "**Check.**" in text or "**Affected.**" in text, fault
