# Two commands do everything on a fresh machine: `make demo` and `make test`.
VENV := .venv
PYTHON := $(VENV)/bin/python
# The page of the web app is built when the package is installed.
PAGE := hatch_build.py $(shell find web -name node_modules -prune -o -type f -print)

.PHONY: demo test lint bench clean

demo: $(VENV)/.ready
	$(VENV)/bin/deixis demo

# One thread a worker: as many workers as cores, each with as many threads, would only stand in each other's way.
test: $(VENV)/.ready-test lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PYTHON) -m pytest -n auto --durations=10 --doctest-modules tests src/deixis

lint: $(VENV)/.ready-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(VENV)/.ready-test
	$(PYTHON) benchmarks/data.py

$(VENV)/.ready: pyproject.toml constraints.txt scripts/setup $(PAGE)
	scripts/setup $(VENV)
	touch $@

$(VENV)/.ready-test: pyproject.toml constraints.txt scripts/setup $(PAGE)
	scripts/setup $(VENV) test
	touch $@ $(VENV)/.ready

clean:
	rm -rf $(VENV) deixis-demo
