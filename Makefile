# One command each; `make help` lists them. Everything sets itself up.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup demo test lint soak soak-sql bench bench-operators bench-overhead bench-alone docs lock clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(READY)  ## make .venv with everything in it (fast when nothing changed)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; name another with: make PYTHON=python3.12 setup")'
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $(READY)

demo: setup  ## the sales diamond: live writes, a kill, a recovery, a check from scratch
	$(RUN)/anabranch demo

lint: setup  ## ruff and mypy
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

test: lint  ## lint and all tests but the long ones
	$(RUN)/python -m tests.run

soak: setup  ## the long tests: more seeds, more kills, 3,000 random queries x 10 ticks (some hours)
	$(RUN)/python -m pytest -m soak --durations=15
	$(RUN)/python -m tests.exactness.soak --anew

soak-sql: setup  ## the random queries alone; goes on where the last go stopped
	$(RUN)/python -m tests.exactness.soak

bench: setup  ## differential against full: a GROUP BY of a million rows, then the TPC-H graph, fused and one by one
	$(RUN)/python -m benchmarks.group_by
	$(RUN)/anabranch bench tpch --scale 0.1 --changes 1000 --ticks 3

bench-alone: setup  ## each TPC-H query refreshed by itself, AUTO against its own full refresh
	$(RUN)/python -m benchmarks.alone --output benchmarks/results/alone.txt

docs: setup  ## write docs/reference/ from the code
	$(RUN)/python docs/generate.py

bench-operators: setup  ## each operator on a million rows, differential against full
	$(RUN)/python -m benchmarks.operators --output benchmarks/results/operators.txt

bench-overhead: setup  ## ticks in which next to nothing changed, against the smallest Spark job
	$(RUN)/python -m benchmarks.overhead

lock: setup  ## pin every dependency anew from pyproject.toml
	$(RUN)/python -m pip install --quiet uv
	$(RUN)/uv pip compile --quiet --no-header --extra dev --python-version 3.11 pyproject.toml -o requirements.lock

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
