# Two commands do everything on a fresh machine: `make demo` and `make test`.
VENV := .venv
PYTHON := $(VENV)/bin/python
# The page of the web app is built when the package is installed.
PAGE := hatch_build.py $(shell find web -name node_modules -prune -o -type f -print)

.PHONY: demo test lint fuzz soak audit licences sbom benchmarks clean

demo: $(VENV)/.ready
	$(VENV)/bin/deixis demo

# The tests start Python some hundred times, which is quicker where it may keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

# One thread a worker: as many workers as cores, each with as many threads, would only stand in each other's way.
test: $(VENV)/.ready-test lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PYTHON) -m pytest -n auto --durations=10 --doctest-modules tests src/deixis

lint: $(VENV)/.ready-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy --num-workers auto

# Hostile files: a minute for each reader. In the tests they get a few seconds each.
fuzz: $(VENV)/.ready-test
	OMP_NUM_THREADS=1 $(PYTHON) -m tests.fuzz.fuzzing 60 tests/fuzz/found

# An hour of mixed load on the server and of fuzzing: SOAK_MINUTES=5 make soak
soak: $(VENV)/.ready-test
	OMP_NUM_THREADS=1 $(PYTHON) -m tests.soak.soaking --keep --minutes $${SOAK_MINUTES:-60}

# Known weaknesses of the pinned versions; this one needs a network.
audit: $(VENV)/.ready-test
	scripts/audit $(VENV)

licences: $(VENV)/.ready-test
	$(PYTHON) scripts/licences.py --out docs/licences.md

sbom: $(VENV)/.ready-test
	$(PYTHON) scripts/sbom.py --out sbom.json

# Everything that docs/benchmarks.md shows, for hours: make benchmarks DATA=flickr8k.data
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
