# One way to do each chore, the same here and in .ci/run. `make` alone lists them.
#
# Everything runs in $(VENV), which the first verb that needs it creates from a lock (versions and hashes
# pinned) and which is refreshed when the lock or pyproject.toml changes: `make run` and `make serve`
# install requirements-run.lock, all others requirements-dev.lock, which has the same versions and the tools.
# Several Pythons on the machine?   make test PYTHON=python3.12 VENV=.venv-3.12
# Options for the tool behind a verb:   make test ARGS="-k corners"   make serve ARGS="--port 9000"

PYTHON ?= python3
VENV ?= .venv
UV ?= uv
ARGS ?=
# Tests run in two processes more than there are processors, at most four, a whole file in one. JOBS=0: all in one.
JOBS ?= logical

BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNNABLE := $(VENV)/.runnable
PYTEST := -m pytest -n $(JOBS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))

.DEFAULT_GOAL := help
.PHONY: help setup run serve test test-fast test-python test-oldest test-newest coverage lint types format bench soundness totals estimates golden enumerated earned-enumerated extremes plurality groups earned sampled faults attack fuzz mutation formal docs build release audit container lock ci clean distclean

help: ## list these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## create or refresh the virtual environment (the other verbs do it themselves)

run: $(RUNNABLE) ## solve the paper's two settings, draw them into output/, serve them at 127.0.0.1:8000
	$(BIN)/python -m tools.first_run $(ARGS)

serve: $(RUNNABLE) ## serve the HTTP API
	$(BIN)/darrm serve $(ARGS)

test: $(READY) ## run all tests, and the examples in the docstrings
	$(BIN)/python $(PYTEST) $(ARGS)

test-fast: $(READY) ## run the tests that take no more than a few seconds each
	$(BIN)/python $(PYTEST) -m "not slow" $(ARGS)

test-python: $(READY) ## run the fast tests that depend on the version of Python: what CI runs on all but one
	$(BIN)/python $(PYTEST) -m "not slow and not any_python" $(ARGS)

test-oldest: ## run the fast tests with the oldest dependencies that pyproject.toml allows, in .venv-oldest
	@$(call RESOLVE,.venv-oldest,lowest-direct)
	.venv-oldest/bin/python -m pytest -m "not slow" $(ARGS)

test-newest: ## run the fast tests with the newest dependencies that pyproject.toml allows, in .venv-newest
	@$(call RESOLVE,.venv-newest,highest)
	.venv-newest/bin/python -m pytest -m "not slow" $(ARGS)

coverage: ## say which branches of the three packages no test takes (an hour of one processor; docs/testing.md)
	$(MAKE) --no-print-directory setup VENV=.venv-coverage
	.venv-coverage/bin/python -m pip install --quiet coverage==7.17.3
	.venv-coverage/bin/python -m coverage erase --rcfile=tests/coverage.ini
	.venv-coverage/bin/python -m coverage run --rcfile=tests/coverage.ini $(PYTEST) $(ARGS)
	.venv-coverage/bin/python -m coverage combine --quiet --rcfile=tests/coverage.ini
	.venv-coverage/bin/python -m coverage report --rcfile=tests/coverage.ini

lint: types $(READY) ## check types, style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY) ## check types alone
	$(BIN)/mypy $(ARGS)

format: $(READY) ## format the code and mend what ruff can mend by itself
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

bench: $(READY) ## measure, and write the table in benchmarks/
	$(BIN)/python -m benchmarks $(ARGS)

soundness: $(READY) ## hold certificates against exact arithmetic on random problems (10,000: half an hour)
	PYTHONPATH=tests $(BIN)/python -m campaigns.soundness --write docs/soundness.md $(ARGS)

plurality: $(READY) ## hold plurality rules against enumeration in fractions on random problems (10,000: 10 minutes)
	PYTHONPATH=tests $(BIN)/python -m campaigns.plurality --write docs/soundness.md $(ARGS)

groups: $(READY) ## hold tables of groups of voters against every corner in fractions (two minutes; docs/soundness.md)
	PYTHONPATH=tests $(BIN)/python -m campaigns.groups $(ARGS)

totals: $(READY) ## hold totals of several releases against every transcript in fractions (10,000: twenty minutes)
	PYTHONPATH=tests $(BIN)/python -m campaigns.totals --write docs/soundness.md $(ARGS)

estimates: $(READY) ## measure problems at random and fit the estimates of running time (ten minutes of one processor)
	$(BIN)/python -m benchmarks.estimates $(ARGS)

golden: $(READY) ## compare all totals with those that were frozen (a minute; ARGS="--write 1" freezes them anew)
	PYTHONPATH=tests $(BIN)/python -m campaigns.golden_totals $(ARGS)

enumerated: $(READY) ## hold totals of mechanisms against an adversary who is enumerated (5,000: two hours)
	PYTHONPATH=tests $(BIN)/python -m campaigns.enumerated --write docs/soundness.md $(ARGS)

earned-enumerated: $(READY) ## hold totals that votes earn against all data sets and neighbours (5,000: an hour and a half)
	PYTHONPATH=tests $(BIN)/python -m campaigns.earned_enumerated --write docs/soundness.md $(ARGS)

extremes: $(READY) ## ask every account and calibration extreme questions (50,000: half an hour of one processor)
	PYTHONPATH=tests $(BIN)/python -m campaigns.extremes --write docs/soundness.md $(ARGS)

sampled: $(READY) ## totals of sampled queries against enumeration, and settings (ten minutes; docs/soundness.md)
	PYTHONPATH=tests $(BIN)/python -m campaigns.sampled --write docs/soundness.md $(ARGS)

earned: $(READY) ## what votes earn at the size of PATE, by their agreement (a quarter of an hour; docs/scale.md)
	PYTHONPATH=tests $(BIN)/python -m campaigns.earned --write docs/scale.md $(ARGS)

faults: $(READY) ## kill writers, servers, solvers, clients, label runs at random moments (an hour; docs/faults.md)
	PYTHONPATH=tests $(BIN)/python -m campaigns.kill_store $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m campaigns.kill_service $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m campaigns.kill_label $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m campaigns.kill_label --classes 4 $(ARGS)

attack: $(READY) ## attack a server, naked and behind nginx, beside a polite client (ten minutes; docs/faults.md)
	PYTHONPATH=tests $(BIN)/python -m campaigns.denial --write docs/faults.md $(ARGS)

fuzz: $(READY) ## send thousands of generated requests, good and bad, to a running service
	PYTHONPATH=tests $(BIN)/python -m campaigns.schema_fuzz --write docs/fuzzing.md $(ARGS)

mutation: $(READY) ## put small faults into MODULE=corners (or all: hours), and see whether its tests notice
	PYTHONPATH=tests $(BIN)/python -m campaigns.mutation $(MODULE) $(ARGS)

formal: ## check the Coq proof of the certificate, and build its checker (needs Coq and OCaml; docs/formal.md)
	@$(MAKE) --no-print-directory -C formal $(ARGS)

docs: $(READY) ## build the site into site/, strictly: the pages, the references, openapi.json and the licences
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --quiet $(ARGS)

build: $(READY) ## build the wheels and the source archive into dist/
	rm -rf dist
	$(BIN)/python -m hatchling build
	cd papers && $(abspath $(BIN))/python -m hatchling build -t wheel -d ../dist

release: $(READY) ## make a release in dist/release/, from what is committed (docs/releasing.md)
	$(BIN)/python -m tools.release $(ARGS)

audit: $(READY) ## ask for known vulnerabilities in what is pinned; says aloud when nobody can be asked
	@$(BIN)/python -m tools.audit || test $$? -eq 77

container: $(READY) ## build the image and run it hardened: Linux, root, podman, buildah (docs/deploy.md)
	PYTHON=$(BIN)/python tests/container/run.sh $(ARGS)

lock: ## pin all versions again; keeps what still fits, `ARGS=--upgrade` takes the newest (needs uv)
	@command -v $(UV) >/dev/null || { echo 'make lock needs uv on the PATH: pip install uv' >&2; exit 1; }
	$(LOCK) --extra all -o requirements.lock
	$(LOCK) --extra all --group dev -c requirements.lock -o requirements-dev.lock
	$(LOCK) $(addprefix --extra ,serve cli plot plurality) --group build -c requirements-dev.lock -o requirements-run.lock
	$(LOCK) $(addprefix --extra ,serve postgres otel plurality) -c requirements.lock -o requirements-service.lock

# Universal: one file for Python 3.11-3.14 on every platform, by markers. No file of ours and no index
# is named in it: the hashes alone say what may be installed.
LOCK = UV_CUSTOM_COMPILE_COMMAND="make lock" $(UV) pip compile pyproject.toml --no-config --quiet --universal \
	--fork-strategy fewest --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links $(ARGS)

ci: ## everything that must pass before a change is merged
	.ci/run

clean: ## remove what building and testing leave behind
	rm -rf build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## also remove the virtual environment and output/
	rm -rf $(VENV) output

$(READY): requirements-dev.lock pyproject.toml papers/pyproject.toml hatch_build.py $(wildcard darrm_opt/design/kernel/*.[ch])
	@$(CREATE)
	@echo 'Installing the locked versions, with the tools, into $(VENV); the first time this takes a minute or two.'
	@$(PIP) install --quiet --require-hashes -r requirements-dev.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable . --editable papers
	@$(BIN)/python -m compileall -q darrm darrm_opt solver_cache darrm_client api papers/darrm_papers # pip does this for all others: the first run is quick
	@touch $(RUNNABLE) $@

# What `make run` needs and no more. Byte code is made as modules are imported: most never are.
$(RUNNABLE): requirements-run.lock pyproject.toml papers/pyproject.toml hatch_build.py $(wildcard darrm_opt/design/kernel/*.[ch])
	@$(CREATE)
	@echo 'Installing what it runs, in locked versions, into $(VENV); the first time this takes half a minute.'
	@$(PIP) install --quiet --no-compile --require-hashes -r requirements-run.lock
	@$(PIP) install --quiet --no-compile --no-deps --no-build-isolation --editable . --editable papers
	@touch $@

define CREATE
$(PYTHON) -c '$(SUPPORTED)' || { \
	echo 'darrm-opt needs Python 3.11, 3.12, 3.13 or 3.14, and "$(PYTHON)" is not one: make <verb> PYTHON=python3.11' >&2; exit 1; }; \
$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	echo '"$(PYTHON)" cannot create virtual environments. Debian, Ubuntu: apt-get install python3-venv' >&2; exit 1; }; \
test -x $(BIN)/python || $(PYTHON) -m venv --clear $(VENV) || exit 1; \
$(BIN)/python -c '$(SUPPORTED)' || { \
	echo '$(VENV) holds a Python that is not supported: make distclean, then again' >&2; exit 1; }; \
$(BIN)/python -c 'import pip' 2>/dev/null || $(BIN)/python -m ensurepip --default-pip >/dev/null
endef

# An environment $(1) with what pyproject.toml allows, by the rule $(2), and with no lock: pip cannot take the oldest.
# Where uv is not on the PATH, it is installed into an environment of its own.
define RESOLVE
$(PYTHON) -c '$(SUPPORTED)' || { echo '"$(PYTHON)" is not Python 3.11 to 3.14: make <verb> PYTHON=python3.11' >&2; exit 1; }; \
uv=$$(command -v $(UV)) || { \
	test -x .venv-uv/bin/uv || { $(PYTHON) -m venv --clear .venv-uv && \
		.venv-uv/bin/python -m pip install --disable-pip-version-check --no-input --quiet uv; } || exit 1; \
	uv=.venv-uv/bin/uv; }; \
$$uv venv --quiet --no-config --clear --python "$$(command -v $(PYTHON))" $(1) && \
$$uv pip install --quiet --no-config --python $(1) --resolution $(2) -r pyproject.toml --extra all --group dev && \
$$uv pip install --quiet --no-config --python $(1) --no-deps --editable papers
endef
