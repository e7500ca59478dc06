# Everything needs Python 3.11+ and make, nothing else: the environment is made in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test check lint thorough chaos fuzz install install-verified pin-hashes sbom bench bench-rounds bench-crypto clean
help:  ## Show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

demo: $(READY)  ## Train three organisations on one machine and see it converge
	$(BIN)/hyfdca demo --out demo-out

# Tests run side by side: threads of linear algebra would only get in each other's way.
test check thorough chaos fuzz: export OMP_NUM_THREADS := 1
# They start hundreds of processes, each of which would otherwise recompile all modules.
unexport PYTHONDONTWRITEBYTECODE

test: lint  ## Linters, types, import contracts and all tests but the longest
	$(BIN)/pytest -q -n 3 --dist loadgroup --no-loadscope-reorder -m "not chaos"

check: lint  ## Linters, types, import contracts and the fast tests (a quarter of the cases where there are many)
	HYFDCA_TEST_PROFILE=quick $(BIN)/pytest -q -n 2 --dist loadgroup -m "not slow and not chaos"

lint: $(READY)  ## Linters, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

thorough: lint  ## All tests with full counts, processes killed over and over, mutants
	HYFDCA_TEST_PROFILE=thorough $(BIN)/pytest -q -n 3 --dist loadgroup -m "not chaos"
	$(BIN)/python -m tests.mutants
	$(MAKE) chaos

chaos: $(READY)  ## Kill processes of studies between machines, some 30 times, and compare
	$(BIN)/python -m tests.chaos
	$(BIN)/pytest -q -n 2 -m chaos

# FUZZ="--messages 1000000 --files 200000 --seconds 36000 --seed 1" tries more.
fuzz: $(READY)  ## Change messages and corrupt files at random, for about four minutes
	$(BIN)/python -m tests.fuzz $(FUZZ)

install: $(READY)  ## Only make the environment

# Run this once on each target platform, where the index is trusted.
pin-hashes: $(READY)  ## Add the hashes of this platform's packages to requirements-hashes.txt
	$(BIN)/pip install -q --disable-pip-version-check --dry-run --ignore-installed --no-deps \
		--report - -r constraints.txt | $(BIN)/python tools/pin_hashes.py requirements-hashes.txt

install-verified: requirements-hashes.txt  ## Make the environment from packages with exactly these hashes
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes --no-deps -r $<
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation .
	touch $(READY)

requirements-hashes.txt:
	@echo "There is no $@; write it with make pin-hashes where you trust the package index." >&2; exit 2

# A separate environment, so that the tool that writes the list is not on it.
sbom: $(READY)  ## Write sbom.json, the software bill of materials of the environment (CycloneDX)
	$(PYTHON) -m venv $(VENV)/sbom
	$(VENV)/sbom/bin/pip install -q --disable-pip-version-check 'cyclonedx-bom>=7,<8'
	$(VENV)/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--of JSON -o sbom.json $(BIN)/python

bench: $(READY)  ## Benchmarks; `hyfdca data` says where it looks for the paper's data sets
	$(BIN)/python -m benchmarks

bench-rounds: $(READY)  ## Rounds, participation and wall time of the bundle method
	$(BIN)/python -m benchmarks rounds intercept losses participation wall

bench-crypto: $(READY)  ## What encryption costs per number, per round and per training
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/hyfdca bench crypto
	$(BIN)/python -m benchmarks encryption alignment prediction

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hyfdca needs Python 3.11 or later; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:  ## Remove the environment and all generated files
	rm -rf $(VENV) demo-out fuzz-findings sbom.json .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
