"""The security policy and the list of faults are linked, and the list says of each fault what its reader needs."""

from __future__ import annotations

import re

from support.paths import ROOT

PAGE = (ROOT / "docs" / "vulnerabilities.md").read_text(encoding="utf-8")
FAULTS = dict(re.findall(r"^## (V-\d+): [^\n]+\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_policy_and_page_are_linked() -> None:
    for document in ("README.md", "docs/security.md"):
        links = re.findall(r"\]\(([^)#\s]+)", (ROOT / document).read_text("utf-8"))
        assert {"SECURITY.md", "vulnerabilities.md"} <= {link.rpartition("/")[2] for link in links}, document
    assert "(docs/vulnerabilities.md)" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "(../SECURITY.md)" in PAGE


def test_the_table_names_every_fault_and_each_says_what_was_promised_what_is_true_and_what_is_done() -> None:
    kinds = "privacy|availability|access|a bound on utility"
    row = rf"^\| \[(V-\d+)\]\(#v-\d+-[\w-]+\) \| [^|]+ \| [^|]+ \| (?:{kinds}) \|$"
    listed = re.findall(row, PAGE, re.MULTILINE)
    assert listed == [*FAULTS] == [f"V-{number}" for number in range(1, len(listed) + 1)]
    assert ("**No vulnerability of a released version is known.**" in PAGE) == (not listed)
    for fault, text in FAULTS.items():
        for part in ("Promised", "True", "Now"):
            assert f"**{part}.**" in text, f"{fault}: {part}"
        assert "**Check.**" in text or "**Affected.**" in text, fault
