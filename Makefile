# The whole workflow. CI (.ci/run) calls `make test` and `make lint`, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH ?= all

FUZZ_MINUTES ?= 10

PROBLEMS ?= 10000

.PHONY: help demo test lint format docs bench fuzz torture clean

help:
	@echo "make demo    one million checkerboard rows, beside scikit-learn's SVC"
	@echo "make test    every test"
	@echo "make lint    ruff, mypy, import-linter, codespell, numpydoc"
	@echo "make format  let ruff rewrite the code"
	@echo "make docs    the site, in build/docs/index.html"
	@echo "make bench   BENCH=\"NAME [--quick]\" one experiment (default: all)"
	@echo "make fuzz    FUZZ_MINUTES=10 of broken files for readers and containers, each"
	@echo "make torture PROBLEMS=10000 random fits, judged independently; signals"
	@echo "make clean   remove the virtual environment and every cache"

# One stamp per set of extras: `make demo` must not wait for the linters.
$(VENV)/.installed-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$*]"
	touch $@

demo: $(VENV)/.installed-plot
	$(BIN)/python examples/checkerboard.py

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m pytest -q tests/integration/test_docstrings.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks $(BENCH)

fuzz: $(VENV)/.installed-dev
	$(BIN)/python tests/fuzz_readers.py --minutes $(FUZZ_MINUTES)
	$(BIN)/python tests/fuzz_containers.py --minutes $(FUZZ_MINUTES)

torture: $(VENV)/.installed-dev
	cd tests && ../$(BIN)/python -m torture --problems $(PROBLEMS)
	$(BIN)/python tests/torture_signals.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf .import_linter_cache docs/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
