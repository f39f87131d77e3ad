# The front door. Each target sets up what it needs first; a second run does no set-up work.
.DEFAULT_GOAL := help
.PHONY: help setup build check demo test lint docs fuzz bench live wheel torch-headers clean

FUZZ_SECONDS ?= 30
SINCE ?= main

help: ## say what there is (this)
	@awk -F ':.*## ' '/^[a-z-]+:.*##/ {printf "make %-13s  %s\n", $$1, $$2}' Makefile

setup: ## get everything that building and testing needs
	@tools/setup.sh test
	@tools/setup.sh python

build: ## build the command: build/release/stweaver
	@tools/setup.sh build
	@tools/build.sh release stweaver

check: setup ## before each commit, in two minutes: build, the quick tests, lint of what changed SINCE=main
	@SINCE=$(SINCE) tools/test.sh release quick_tests quick_python format tidy python_lint shell_lint

demo: build ## inspect, plan, check and compare real training jobs
	@tools/demo.sh

test: ## build everything, run all tests and checks, and fuzz for FUZZ_SECONDS=30 each
	@tools/setup.sh test
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/test.sh

lint: setup ## only the checks of format and style (C++, Python, shell)
	@tools/test.sh release format tidy python_lint shell_lint

docs: setup ## the documents as a site: build/site/index.html
	@tools/test.sh docs

fuzz: setup ## only the fuzzers, FUZZ_SECONDS=30 each
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/test.sh fuzzers fuzz

bench: build ## plan every example and print size, bound, peak, ratio, winner, seconds, memory
	@. ./tools/environment.sh && python3 bench/plan.py

live: build ## training loops that are not ours, on null CUDA: JOBS="trainer fsdp2_of_8" for some of them
	@tools/build.sh release stweaver_library
	@python3 bench/live/run.py $(JOBS)

wheel: build ## the wheel and the sdist that go to others, with adapters for TORCH="2.8 2.15", or for every release
	@. ./tools/environment.sh && python3 tools/wheel.py $(TORCH)

torch-headers: setup ## compile the adapters against the headers of PyTorch 2.8 to 2.15 (fetched once, 130 MB; no GPU)
	@. ./tools/environment.sh && python3 tools/torch_headers.py
	@tools/torch_matrix.sh

clean: ## remove what was built (not what was set up)
	@rm -rf build/release build/debug build/asan build/tsan build/fuzz build/log build/results build/tidy build/nullcuda \
	  build/adapters build/wheel build/site build/gpu build/demo.*
