# `make demo` sets up and does the main job; `make test` proves it. Everything lives in .venv and .engines.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint engines setup clean

demo: $(VENV)/.ready
	$(BIN)/headtohead demo

test: $(VENV)/.ready
	$(BIN)/python -m pytest

lint: $(VENV)/.ready
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

engines: $(VENV)/.ready
	$(BIN)/python -m launchers.engines.install vllm

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[llamacpp,notebooks,dev]'
	touch $@

clean:
	rm -rf $(VENV) .engines results
