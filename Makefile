# On a fresh machine, run `make demo` or `make test`; before a merge, `make test-slow` too.
VENV := .venv
PYTHON := $(VENV)/bin/python
# Sources of the web app, which is built when the package is installed.
PAGE := hatch_build.py $(shell find web -name node_modules -prune -o -type f -print)

.PHONY: demo test test-slow docs lint fuzz soak audit licences sbom benchmarks clean

demo: $(VENV)/.ready
	$(VENV)/bin/deixis demo

# The tests start Python a few hundred times, which is faster with cached bytecode.
unexport PYTHONDONTWRITEBYTECODE

# One thread per pytest worker: there is one worker per core already. The tests of a file share its models and servers,
# so one worker runs them all.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PYTHON) -m pytest -n auto --dist loadfile -rfE --durations=10

# Everything that guards behaviour, in a few minutes.
test: $(VENV)/.ready-test lint
	$(PYTEST) -m "not slow" --doctest-modules tests src/deixis

# What takes long by nature: training again, fuzzing, every moment of a fault, every size of a page.
test-slow: $(VENV)/.ready-test
	$(PYTEST) -m slow tests

lint: $(VENV)/.ready-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy --num-workers auto

# Builds the documentation site in docs/_build. A broken link or reference is an error.
docs: $(VENV)/.ready-test
	$(VENV)/bin/sphinx-build -W --keep-going -q docs docs/_build

# Fuzzes each file reader for a minute (`make test` replays a saved corpus, `make test-slow` fuzzes for seconds).
fuzz: $(VENV)/.ready-test
	OMP_NUM_THREADS=1 $(PYTHON) -m tests.fuzz.fuzzer 60 tests/fuzz/found

# An hour of mixed load on the server while fuzzing. A shorter run: SOAK_MINUTES=5 make soak
soak: $(VENV)/.ready-test
	OMP_NUM_THREADS=1 $(PYTHON) -m tests.soak.soak --keep --minutes $${SOAK_MINUTES:-60}

# Checks the pinned versions for known vulnerabilities. Needs a network.
audit: $(VENV)/.ready-test
	scripts/audit $(VENV)

licences: $(VENV)/.ready-test
	$(PYTHON) scripts/licences.py --out docs/licences.md

sbom: $(VENV)/.ready-test
	$(PYTHON) scripts/sbom.py --out sbom.json

# Runs all benchmarks of docs/benchmarks.md, which takes hours: make benchmarks DATA=flickr8k.data
benchmarks: $(VENV)/.ready-test
	$(PYTHON) benchmarks/all.py $(DATA)

$(VENV)/.ready: pyproject.toml constraints.txt scripts/setup $(PAGE)
	scripts/setup $(VENV)
	touch $@

$(VENV)/.ready-test: pyproject.toml constraints.txt weights.txt scripts/setup $(PAGE)
	scripts/setup $(VENV) test
	touch $@ $(VENV)/.ready

clean:
	rm -rf $(VENV) deixis-demo
