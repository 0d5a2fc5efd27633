# `make demo` and `make test` set up everything themselves, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo test test-slow test-studies test-kernels test-all fuzz lint reproduce bench docs torch browser soak release-check audit clean
help:
	@echo "make demo    mark ten built-in items, rank the others, and write a page about it"
	@echo "make test    run the tests (minutes)"
	@echo "make test-all  run every test: also real processes, every block of the documentation, the studies, other BLAS kernels"
	@echo "make test-studies  run the tests of the studies"
	@echo "make fuzz    attack model files, tables, messages and the page of corank ask at random, for an hour or HOURS="
	@echo "make lint    ruff, mypy, import-linter"
	@echo "make reproduce  a quick run of the papers' tables and figures (CORANK_DATA: folder of data sets)"
	@echo "make bench   speed and memory beside other libraries"
	@echo "make soak    sites, streamed fits and Dask under faults (MINUTES=60), and a table of what came of it"
	@echo "make docs    build the documentation, running its examples"
	@echo "make release-check  build, install in a clean environment, and drive the installed command (minutes; INTERPRETER=python3.13)"
	@echo "make audit   licences of the package and its dependencies, known vulnerabilities"
	@echo "make torch   add the CPU build of PyTorch to the environment"
	@echo "make browser add headless Chromium, in which tests open reports (needs apt-get and root)"

$(STAMP): pyproject.toml federated/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt "pip>=25.1"
	$(PIP) install --quiet --constraint constraints.txt --editable . --editable ./federated --group dev
	touch $@

demo: $(STAMP)
	$(BIN)/corank demo --report corank-demo.html --force

PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal
test: $(STAMP)
	$(PYTEST)

test-slow: $(STAMP)
	$(PYTEST) -m slow tests

test-studies: $(STAMP)
	$(PYTEST) -m "slow or not slow" studies/tests

# Processors round differently: the numerical tests hold under another BLAS kernel and another number of threads too.
test-kernels: $(STAMP)
	OPENBLAS_CORETYPE=Sandybridge OPENBLAS_NUM_THREADS=4 OMP_NUM_THREADS=4 $(PYTEST) tests/solve tests/learners

test-all: test test-slow test-studies test-kernels

HOURS ?= 1
fuzz: $(STAMP)
	$(BIN)/python -m fuzz --hours $(HOURS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

REPRODUCED ?= reproduce-all
reproduce: $(STAMP)
	@if test -d "$(CORANK_DATA)"; then \
		$(BIN)/python -m studies papers --quick --force --out "$(REPRODUCED)" --data "$(CORANK_DATA)"; \
	else \
		echo "make reproduce: NO DATA SETS: CORANK_DATA names no folder; running only what needs none"; \
		env -u CORANK_DATA $(BIN)/python -m studies papers --quick --force --out "$(REPRODUCED)"; \
	fi

torch: $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt torch

browser: $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt --group browser
	command -v chromium > /dev/null || { apt-get update --quiet && apt-get install --quiet --yes chromium; }

bench: $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt --group bench --group peers
	$(BIN)/python -m benchmarks

docs: $(STAMP)
	$(PIP) install --quiet --constraint constraints.txt --group docs
	rm -rf docs/reference docs/gallery-of  # pages of names that are no more would be left behind
	$(BIN)/sphinx-build -W -n --keep-going -b html docs docs/_build/html
	$(BIN)/python tools/docs_check.py docs/_build/html

MINUTES ?= 60
soak: $(STAMP)
	$(BIN)/python tools/soak.py --minutes $(MINUTES)

release-check: $(STAMP)
	$(BIN)/python tools/release_check.py $(if $(INTERPRETER),--python $(INTERPRETER))
	mkdir -p dist
	$(BIN)/python tools/audit.py --bill dist/corank.cdx.json

audit: $(STAMP)
	$(PIP) install --quiet pip-audit || echo "pip-audit cannot be installed here"
	$(BIN)/python tools/audit.py

clean:
	rm -rf $(VENV) docs/_build docs/reference docs/gallery-of docs/auto_examples dist federated/dist
