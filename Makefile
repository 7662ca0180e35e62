# The verbs of this repository. Each one sets up .venv by itself; `make` lists them.

BIN := .venv/bin
WORKERS ?= 3
CORES ?= 2
COUNT ?= 200000
IMAGES ?= 100000
KILLS ?= 5000
FAULT_SECONDS ?= 1800
SOAK ?= 8h
SEEDS ?= 1000000
MATRIX := docs/reference/conformance-matrix.md
# Groups of the conformance checklist in which every MUST needs a test.
COMPLETE ?= ROOT,KEY,EXE,WRK,STEP,ADM,LOOP,PIPE,OUT,POL,DIR,NEXT,TPL,SCOPE,SPEC,EVT,REP,RES,WKR,SES,VAL,WARN,LEG-CASE,LEG-STEP,LEG-NEXT,LEG-RETRY,LEG-POLL,LEG-EVT,QNT,DOC,ACC

# Installs the fuzzer that coverage guides, where there is one: without it inputs are
# random changes of a corpus.
FUZZER = $(BIN)/python -c 'import atheris' 2>/dev/null || \
  $(BIN)/python -m pip --disable-pip-version-check install -qq --require-hashes \
    -r scripts/fuzz.lock 2>/dev/null || \
  echo "noetl: atheris cannot be installed: fuzzing is not guided by coverage"

# Tests are compiled once and not at each run, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick check check-types check-house check-lint \
  check-format check-imports check-ui house fmt bench docs conformance golden fuzz coverage long mutants faults upgrade-test nightly lock sbom ui screenshots dist release pythons

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## make or refresh .venv (every verb does it first)
	@scripts/bootstrap

demo: setup ## run an example to its end, before your eyes
	@$(BIN)/python scripts/demo.py

test: check ## all checks and all tests; this is what CI runs
	@scripts/test-programs
	@$(BIN)/python scripts/ui.py packages || \
	  echo "noetl: the packages of ui/ cannot be fetched: tests that need them are skipped"
	@$(FUZZER)
	@TMPDIR="$$(scripts/scratch)" $(BIN)/pytest -q -n $(WORKERS) --dist worksteal \
	  -o tmp_path_retention_policy=failed \
	  --require-groups=$(COMPLETE) --conformance-check=$(MATRIX)

quick: setup ## unit tests alone, in seconds
	@$(BIN)/pytest -q -n $(WORKERS) tests/unit

pythons: setup ## unit tests with each other Python of this machine (3.11 to 3.14)
	@WORKERS=$(WORKERS) scripts/pythons

check: setup ## formatting, lint, types, import contracts, bounds of the code base
	@$(MAKE) --no-print-directory -k -j $(CORES) -O check-types check-house check-lint \
	  check-format check-imports check-ui

check-types:
	@$(BIN)/mypy

check-house:
	@$(BIN)/python scripts/house.py

check-lint:
	@$(BIN)/ruff check

check-format:
	@$(BIN)/ruff format --check

check-imports:
	@$(BIN)/lint-imports

check-ui:
	@$(BIN)/python scripts/ui.py check

house: setup ## measure the code base, also the files of one step (LIST=1: what is counted)
	@$(BIN)/python scripts/house.py --trace $(if $(LIST),--list)

fmt: setup ## format the code and sort imports
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

bench: setup ## run bench/*.py one after another
	@set -e; for script in bench/*.py; do \
	  [ -e "$$script" ] || continue; \
	  echo "== $$script =="; $(BIN)/python "$$script"; \
	done

docs: conformance ## write the generated reference pages; build site/ if zensical is there
	@$(BIN)/python scripts/docs.py
	@if $(BIN)/python -c 'import zensical' 2>/dev/null; then \
	  $(BIN)/zensical build -f mkdocs.yml; \
	else \
	  echo "pages written; for the site: $(BIN)/pip install -e '.[docs]' and again make docs"; \
	fi

conformance: setup ## write the matrix requirement -> tests and print what is missing
	@$(BIN)/pytest -qq --collect-only --conformance=$(MATRIX)

golden: setup ## write the outputs that tests and pages expect; read the difference
	@$(BIN)/python scripts/golden.py

fuzz: setup ## long fuzzing of what reads hostile text (COUNT=200000 each)
	@$(FUZZER)
	@set -e; for script in tests/security/fuzz/*.py; do \
	  [ -e "$$script" ] || continue; \
	  echo "== $$script =="; $(BIN)/python "$$script" --count $(COUNT); \
	done

coverage: setup ## branches that the tests take; writes bench/COVERAGE.md (MINUTES=n, PARTS="unit …"); goes on after an interruption
	@TMPDIR="$$(scripts/scratch)" $(BIN)/python scripts/measure_coverage.py --workers $(WORKERS) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(LIST),--list) $(PARTS)

long: setup ## simulation, crash images, failing calls, real faults, soak (SOAK=8h), mutants at length; goes on after an interruption
	@mkdir -p build
	@$(BIN)/python scripts/simulate.py --seeds $(SEEDS) --jobs $(CORES) --state build/simulation.jsonl
	@TMPDIR="$$(scripts/scratch)" $(BIN)/python scripts/crash_images.py --count $(IMAGES)
	@TMPDIR="$$(scripts/scratch)" $(BIN)/python scripts/storage_faults.py
	@TMPDIR="$$(scripts/scratch)" $(BIN)/python scripts/fault_campaigns.py kills --cases $(KILLS) --part 300
	@TMPDIR="$$(scripts/scratch)" $(BIN)/python scripts/fault_campaigns.py --seconds $(FAULT_SECONDS) --part 120
	@$(BIN)/python scripts/soak.py --hours $(SOAK:h=)
	@$(MAKE) --no-print-directory mutants

mutants: setup ## small mistakes in the code, of which a test must notice 90 % (SAMPLE=n, PART=engine, AGAIN=1)
	@TMPDIR="$$(scripts/scratch)" $(BIN)/python scripts/mutate.py --jobs $(CORES) \
	  $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(PART),--part "$(PART)") $(if $(AGAIN),--again)

faults: setup ## long runs of kills, freezes and wiped data; writes bench/FAULTS.md
	@$(BIN)/python scripts/fault_run.py $(if $(SEED),--seed $(SEED)) $(if $(SCALE),--scale $(SCALE))

upgrade-test: setup ## upgrade a cluster of an earlier version under load (FROM=commit)
	@TMPDIR="$$(scripts/scratch)" $(BIN)/python scripts/upgrade_run.py $(if $(FROM),--from $(FROM))

nightly: setup ## the campaigns of `make test` in full: every playbook, every kill point
	@CAMPAIGN=full COLD_START=1 $(BIN)/pytest -q -n $(WORKERS) tests/properties tests/ui tests/e2e/test_kill.py \
	  tests/e2e/test_kill_points.py tests/e2e/test_canary.py tests/e2e/test_parked.py tests/e2e/test_retries.py \
	  tests/e2e/test_cluster_kill.py \
	  tests/e2e/examples/test_playbook_tests.py

lock: setup ## refresh lock files and sbom (UPGRADE=1: newer versions; FRESH=name: no 7 days' wait)
	@FRESH="$(FRESH)" scripts/lock $(if $(UPGRADE),--upgrade)
	@scripts/bootstrap
	@$(BIN)/python scripts/sbom.py

sbom: setup ## write deploy/sbom.cdx.json from the lock files
	@$(BIN)/python scripts/sbom.py

ui: setup ## build the web pages of ui/ into src/noetl/ui (after each change and rebase)
	@$(BIN)/python scripts/ui.py build

screenshots: setup ## take the pictures of the web pages for README and docs (needs Chromium)
	@$(BIN)/python scripts/screenshots.py

release: setup ## show a release (VERSION=1.2.0): its changelog, then build and verify what make dist gives; WRITE=1 writes the changelog
	@$(BIN)/python scripts/release.py $(VERSION) $(if $(WRITE),--write)
	@$(if $(WRITE),true,$(MAKE) --no-print-directory dist)

dist: sbom ## build a release into dist/: wheel, sdist, sbom, provenance, SHA256SUMS
	@rm -rf dist
	@$(BIN)/python scripts/dist.py dist
	@$(BIN)/python scripts/verify_dist.py dist
