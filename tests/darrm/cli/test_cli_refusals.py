"""Invalid options: each verb refuses them with exit code 2, in one line that names the option."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from support.darrm_runner import refused, run

CLASSES = "--K 5 --classes 3 --affected 1"
TOTAL = "--total-epsilon 3 --total-delta 1e-5"
TABLE = f"solve {CLASSES} --target-epsilon 1 --delta 1e-3"
POINTS = "--profile 0:0.02,0.1:0.004,0.3:0"
TWENTY = "--K 11 --queries 20"
HUGE = "9" * 23

INVALID: dict[str, dict[str, list[str]]] = {
    "solve": {
        "--K": ["", "--classes 3 --affected 1 --target-epsilon 1"],
        "--epsilon": ["--K 5"],
        "--m": ["--K 5 --epsilon 1", "--K 5 --epsilon inf --m 2", "--K 5 --epsilon 1 --m 2 --target-epsilon 1"],
        "--target-epsilon": ["--K 5 --epsilon inf", CLASSES, "--group K=6,epsilon=0.1"],
        "--affected": ["--K 5 --classes 3 --target-epsilon 1"],
        "46,262": ["--K 100 --classes 5 --affected 1 --target-epsilon 1 --output r.json"],
    },
    "solve --K 5 --m 2 --epsilon 0.5": {
        "--K": ["0", "-3", "2.5", "a", "1_1", "١١"],
        "--epsilon": ["-0.1", "nan", "much", "1e400"],
        "--voter-delta": ["--voter-delta 1", "--Delta -1e-9", "--Delta x", "--Delta 1e-400"],
        "--delta": ["1.0", "-0.5"],
        "--m": ["0", "-2", "inf"],
        "--affected": ["6", "0"],
        "--backend": ["cplex"],
        "--shape": ["round"],
        "--method": ["magic"],
        "--prior": ["fun", "uniform(lower=2)", "minimax(points=1)", "histogram(1,2,3)"],
        "--time-limit": ["soon", "0"],
        "--plot": ["gamma.gif"],
        "--price": ["1"],
    },
    TABLE: {
        "objective": ["--prior nothing", "--prior favoured(0.1)", "--prior dirichlet(nan)", "--prior favoured(nan)"],
        "--prior": ["dirichlet(-1)"],
        "--ties": ["some"],
        "--votes": ["--votes past.csv --prior beta(2,1)"],
        "--shape": ["monotone"],
        "--method": ["enumerate"],
        "--affected": ["6"],
        "--classes": ["0", "1", "1000000"],
        "--K": ["1000001"],
        "--target-epsilon": ["nan", "inf", "-1"],
    },
    "solve --target-epsilon 1": {
        "--group": [
            *("K=6", "K=6,profile=0.1", "K=6,profile=", "K=6,epsilon=1,profile=0:0.1"),
            *("K=6,profile=0:0.1,weight=2", "K=3,epsilon=0.5,Delta=x"),
        ],
        "--K": ["--group K=6,epsilon=0.1 --K 3"],
    },
    "solve --classes 3 --K 5 --epsilon 0.5 --m 2": {"--plot": ["x.png"], "objective": ["--prior what"]},
    f"solve --K 5 {POINTS}": {
        "--epsilon": ["0.2 --target-epsilon 0.2"],
        "--m": ["1"],
        "--profile": [f"{bad} --target-epsilon 0.2" for bad in ("0", "0:2", "gaussian(x)", "gaussian(99)", "0:0.1,")],
    },
    f"least --parameter target_epsilon --utility 0.9 --K 5 {POINTS}": {
        "--epsilon": ["0.3"],
        "--profile": ["0", "0:2", "gaussian(x)"],
    },
    "least --K 7 --epsilon 0.2": {
        "--utility": ["", "2", "nan"],
        "--parameter": ["--utility 0.9 --parameter x"],
        "--digits": ["--utility 0.9 --digits many"],
        "--K": ["--utility 0.9 --K 9001"],
        "--output": ["--utility 0.9 --output /proc/x.json"],
    },
    "error-curve --K 5 --epsilon 0.5 --m 2": {
        "--baselines": ["nope"],
        "--points": ["1", "many", "99999999999999999"],
        "--plot": ["x.txt"],
        "none.json": ["--solution none.json"],
    },
    "profile --K 5 --epsilon 0.5 --m 2": {"--points": ["10000000000", "1"], "--epsilons": ["0,much"]},
    "tradeoff --K 5 --epsilon 0.5": {
        "--baselines": ["--ms 1,2 --baselines nope"],
        "--ms": ["1,x", "1,-1", "1,,3"],
        "--voter-delta": ["--Delta 2"],
    },
    f"error-curve --K 5 {POINTS}": {
        "--epsilon": ["0.2 --target-epsilon 0.2"],
        "--m": ["1"],
        "--profile": ["0 --target-epsilon 0.2", "0:2 --target-epsilon 0.2"],
    },
    f"cost noise {TWENTY}": {"NAME": [""]},
    f"cost gnmax {TWENTY}": {
        "--total-epsilon": ["", f"--sigma 9 {TOTAL}", "1e-300 --total-delta 1e-300"],
        "--rate": ["1"],
        "--delta": ["--sigma 9"],
        "--sigma": ["--sigma -9 --delta 1e-5", "1e300 --delta 0", "1e-300 --delta 1e-5", "1e400 --delta 1e-5"],
        "--check": [f"sigma=9 {TOTAL}"],
        "--queries": [f"{HUGE} --sigma 3 --delta 0"],
    },
    f"cost laplace {TWENTY}": {
        "--scale": ["1e300 --delta 1e-5"],
        "--check": ["cap=9 --scale 2 --delta 0"],
        "--classes": [f"1 {TOTAL}"],
        "--queries": [f"0 {TOTAL}"],
        "The folder /proc cannot be written": ["--scale 2 --delta 1e-5 --output /proc/x.json"],
    },
    "cost subsampling --K 5 --voters 2 --delta 0": {"--classes": ["3"]},
    "cost bagging": {
        "--bags": [
            "",
            *(f"--bags {bags}" for bags in ("n=10,size=2,n=3", "n=10", "size=2", "n=10,size=2,draw=often", "k=3")),
            *("--bags n=10,size=10,draw=disjoint", "--K 5 --bags n=10,size=3,draw=disjoint"),
        ],
        "--K": ["--bags n=10,size=2 --K 0", f"--bags n=10000,size=20 --K {HUGE}"],
        "--queries": ["--bags n=10,size=2 --queries 3"],
        "--sigma": ["--bags n=10,size=2 --sigma 3"],
    },
    "plan": {
        "--K": ["--total-epsilon 1"],
        "--voter-delta": ["--K 5 --total-epsilon 1 --epsilon 1 --Delta 1"],
        "--prior": [f"--K 11 --epsilon inf --affected 1 --queries 5 {TOTAL} --prior uniform(lower=0.3)"],
        "--total-epsilon": [f"{CLASSES} --total-epsilon 501"],
    },
    f"plan --fresh --K 5 --queries 3 {TOTAL} {POINTS}": {
        "--epsilon": ["0.1"],
        "--voter-delta": ["--Delta 0.1"],
        "points": ["--profile gaussian(1) --profile-points 0"],
        "--group": ["K=3,epsilon=1"],
        "--profile": ["0", "0:2", "gaussian(x)", "gaussian(99)", "0:0.1,"],
    },
    f"plan --compare --K 5 --epsilon 0.3 {TOTAL}": {
        "--m": ["2"],
        "--votes": ["none.csv --prior shared(1,1)"],
        "none.csv": ["--votes none.csv"],
        "--plot": ["x.gif"],
        "--bags": ["n=60"],
        "--affected": ["1 --bags n=60,size=6"],
    },
    "plan --compare --K 5 --epsilon 0.3": {"--total-epsilon": [""]},
    f"plan --compare --fresh --K 5 {TOTAL} {POINTS}": {
        "--epsilon": ["0.2"],
        "--voter-delta": ["--Delta 0.1"],
        "--profile": ["0", "0:2", "gaussian(x)"],
    },
    "compose": {
        "expected a number of nats, at least 0 (inf: not private)": ["--queries 3"],
        "is not an answer of `darrm solve`": ["--solution /dev/null"],
    },
    "compose --epsilon 0.1": {
        "--queries": ["0"],
        "--slack": ["1"],
        "--total-delta": ["2", "much"],
        "--m needs --K": ["--m 3"],
        "--fresh needs --K": ["--queries 3 --fresh"],
        "--queries: 1000000001 is not valid: expected a whole number of releases from 1 to 1,000,000,000": [
            "--queries 1000000001"
        ],
    },
    "compose --solution none.json": {"states its own problem: omit --K": ["--K 3"]},
    "cache": {"There are ls, tag, check, rm": ["empty"]},
    "cache ls --url memory": {
        "--K": [HUGE, "many"],
        "--count cannot be combined with a choice of answers": ["--count --K 5"],
        "a whole number from 1 to 1000000000": ["--limit 0"],
        "--limit": ["many"],
        "--tag": ["-a"],
        "--m": ["0"],
    },
    "cache rm --url memory": {
        "expected a number from 0 to 36500": ["--defective --days -1"],
        "--days": ["nan --defective"],
        "One of them": ["--defective --megabytes 1"],
        "--prove needs --defective": ["--days 1 --prove"],
    },
    "cache tag --url memory": {"--id: '0000": ["0000 a"], "--tag: 'a,b'": ["0000 a,b"]},
    "serve": {"--workers": ["0", "0 --show-settings"], "--host": ["--host="]},
    "audit --total-epsilon 1": {"SUBJECT": [""]},
    "audit no_module_of_this_name:vote --total-epsilon 1 --K 3": {"SUBJECT": [""]},
    "audit laplace --K 3": {"--scale": ["--total-epsilon 1"], "--total-epsilon": ["--scale 1"]},
    "audit a.json --total-epsilon 1": {"--scale": ["1"]},
    "audit permute_and_flip --K 3 --rate 1 --total-epsilon 1": {"--neighbours": ["x"]},
    "audit os:getcwd --K 3 --total-epsilon 1": {"--pairs": ["/dev/null"]},
}
"""Arguments of a command, and by option its invalid values, or arguments that make it invalid."""

TOTALS = {
    "--total-epsilon": ("--total-epsilon=-1", "--total-epsilon=inf", "--total-epsilon=many", "--total-epsilon=0"),
    "--total-delta": ("--total-epsilon=1 --total-delta=1", "--total-epsilon=1 --total-delta=little"),
}
SAMPLES = {
    "--sample": [
        "4",
        "--records 10",
        "--records 10 --sample 11",
        "40 --records 5452 --sampling random-allocation,among=9",
    ],
    "--sampling": [
        *("poisson", "random-allocation --records 5452"),
        *(f"{scheme} --records 5452 --sample 40" for scheme in ("similarity", "poisson,neighbours=all")),
        *(f"{scheme} --records 5452 --sample 40" for scheme in ("poisson,labels=0", "poisson,tokens=2")),
    ],
}
for verb, of in product(("plan", "plan --compare"), ("--K 5 --epsilon 0.5", CLASSES)):
    INVALID[f"{verb} {of}"] = {option: [*texts] for option, texts in TOTALS.items()}
for verb in ("plan", "plan --compare"):
    INVALID[f"{verb} {TOTAL}"] = {
        "--affected is missing: expected the number of votes that one record can influence": ["--K 5 --classes 3"],
        "--voter-delta": [f"{CLASSES} --Delta 2"],
        "--classes: 0": ["--classes 0"],
        "--prior: 'shared(2,5)'": [f"{CLASSES} --queries 2 --prior shared(2,5)"],
    }
for verb in ("cost gnmax", "plan", "plan --compare"):
    INVALID[f"{verb} --K 10 --classes 4 --queries 500 {TOTAL}"] = SAMPLES


LABEL = "label votes.csv --release-log r.log --output labels.csv"

NAMED: dict[str, str] = {
    f"{LABEL} --queries 3 --solution none.json": "--solution: 'none.json' is not valid: expected a readable file",
    f"{LABEL} --queries 3 --solution votes.csv": "votes.csv is not JSON; expected a file of `darrm solve`, `plan` or ",
    f"{LABEL} --ptr 1,1e-5 --solution gamma.json": "--ptr needs a vote with Gaussian noise, without a cap. The solution holds a γ.",
    "label words.csv --release-log r.log --output l.csv --queries 3 --solution gamma.json": "Line 1 is neither: votes "
    "are 0 and 1, not words.",
    "plan --K 3 --epsilon 0.5 --total-epsilon 1 --votes none.csv": "--votes: 'none.csv' is not valid",
    "export --output a.txt": "--output: 'a.txt' is not valid: expected a name ending in .parquet, .pq, .csv",
    "verify votes.csv": "votes.csv: This is not a table of darrm-opt",
    "solve --K 3 --epsilon 0.5 --m 3 --target-epsilon 0.3": "--m cannot be combined with --target-epsilon. The target "
    "ε is m·epsilon: give one of them.",
    "solve --group K=5,epsilon=0.5": "--m is not defined for groups.",
    "solve --group K=5,eps=0.5 --target-epsilon 1": "There is no 'eps': did you mean epsilon?",
    "solve --group K=5,K=6,epsilon=0.5 --target-epsilon 1": "'K' is given twice.",
    "plan --K 11 --total-epsilon 1 --profile dp_sgd(1.1,0.01)": "--profile: steps is missing: dp_sgd(σ, q, T) needs 3 "
    "numbers; T is the number of steps.",
    "plan --K 11 --total-epsilon 1 --profile dp_sgd(1.1,1%,2000)": "'1%' is not a number. Write 0.01.",
    "audit pemute_and_flip --rate 5 --total-epsilon 1": "SUBJECT: 'pemute_and_flip' is not valid: expected a mechanism",
    "audit pemute_and_flip --rate 6 --total-epsilon 1": "Did you mean permute_and_flip?",
    "verify text.json": "K = '11' is not valid: expected a whole number of voters, at least 1. It is text: give the "
    "number itself, without quotes.",
}
"""What a message says by the command, in a folder with votes and a γ."""


def test_a_message_names_what_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("votes.csv").write_text("1,0,1\n", encoding="utf-8")
    Path("words.csv").write_text("yes,no,yes\n1,0,1\n", encoding="utf-8")
    Path("text.json").write_text('{"K": "11", "m": 1, "epsilon": 0.5, "gamma": [1, 1, 1, 1]}', encoding="utf-8")
    assert run("solve", "--K", "3", "--m", "1", "--epsilon", "0.5", "--output", "gamma.json").exit_code == 0
    for command, said in NAMED.items():
        message = refused(*command.split())
        assert said in message, (command, message)
    assert not Path("r.log").exists()


@pytest.mark.parametrize("command", INVALID)
def test_the_refusal_of_an_invalid_option_names_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for option, texts in INVALID[command].items():
        for text in texts:
            is_value = text and not text.startswith("--")
            message = refused(*command.split(), *([option] if is_value else []), *text.split())
            assert option in message, (text, message)
            assert message.startswith("Error: ")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("word", "meant"), [("curve", "error-curve"), ("lest", "least"), ("slove", "solve")])
def test_names_of_all_commands_are_suggested(word: str, meant: str) -> None:
    assert f"No such command '{word}'. Did you mean {meant}" in refused(word)
