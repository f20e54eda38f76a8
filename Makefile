# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DOCS_VENV := .venv-docs
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types pytest slow bench docs lock licences audit clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) ## make .venv with everything that the demo and the tests need

# By hash, but for torch: see .github/part_torch.py. The lock is complete, so nothing is resolved again (--no-deps): pip
# would look for the newest release of what another package asks for, and refuse it for want of a hash.
$(STAMP): requirements.lock requirements-torch.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tensorveil needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-torch.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@echo "compiling kernels for this machine, once: half a minute"
	@$(BIN)/tensorveil doctor --warm --json > /dev/null || $(BIN)/tensorveil doctor
	@touch $@

demo: setup ## complete a real tensor at three privacy budgets: tables, pictures, a release with its guarantee
	$(BIN)/tensorveil demo --output demo-output

test: lint types pytest ## lint, types and tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

pytest: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --durations 40

slow: setup ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

bench: setup ## measure against peers; see benchmarks/README.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "cmfrec>=3.5"
	$(BIN)/python -m benchmarks

docs: $(DOCS_VENV)/.ready ## build the documentation into site/ and check its links
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet --strict --clean
	$(DOCS_VENV)/bin/python docs/_site/check.py site

# The site needs none of what the library needs: its own small environment, and a lock of its own.
$(DOCS_VENV)/.ready: requirements-docs.lock
	$(PYTHON) -m venv --clear $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-docs.lock
	@touch $@

lock: setup ## pin what pyproject.toml asks for, by hash
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --no-strip-extras --extra dev --extra frames --extra matlab --extra images --extra plots --extra tensorly --extra accounting --extra federated --extra learning --extra desk --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --output-file requirements.lock pyproject.toml
	$(BIN)/python .github/part_torch.py
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' \
		| $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --no-strip-extras --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --output-file requirements-docs.lock -

licences: setup ## list the licences of what is installed, in docs/reference/licences.md
	$(BIN)/python docs/_site/licences.py

# In an environment of its own: the tool and what it needs are not part of what it looks at. It is strict, since it calls
# packages free of known holes that it could not look up, as behind a mirror.
audit: ## compare the pinned versions with known holes; needs a network
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	.venv-audit/bin/pip-audit --strict --requirement requirements.lock --disable-pip
	.venv-audit/bin/pip-audit --strict --requirement requirements-torch.lock --disable-pip --no-deps
	.venv-audit/bin/pip-audit --strict --requirement requirements-docs.lock --disable-pip

clean: ## remove what make made
	rm -rf $(VENV) $(DOCS_VENV) .venv-audit demo-output build dist site .mypy_cache .ruff_cache .pytest_cache
