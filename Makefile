# Thin wrapper: the commands are CMakePresets.json's and scripts/'s.
#   make                  installs what is missing, builds build/isthmus
#   make demo             two sites train on real text for about two minutes
#   make test             builds and runs every test
#   make sanitize         unit tests under address and undefined-behaviour sanitizers
#   make sanitize-thread  unit tests under the thread sanitizer
#   make bench-train      tokens per second, beside PyTorch's where TORCH_PYTHON=... is given
#   make bench-sync       seconds of a sync beside the wire's limit and gloo (root; TORCH_PYTHON=... for the peer)
#   make install PREFIX=/usr/local
#   make deps, make deps-test, make clean
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
TEST_JOBS ?= 1

.PHONY: build deps deps-test demo test bench-train bench-sync install sanitize sanitize-thread clean
.DEFAULT_GOAL := build

build: deps
	cmake --preset release
	cmake --build build -j $(JOBS) --target isthmus

deps:
	scripts/deps.sh

deps-test:
	scripts/deps.sh --tests

demo: build
	scripts/demo.sh

test: deps-test
	cmake --preset test
	cmake --build build -j $(JOBS)
	ctest --test-dir build -j $(TEST_JOBS) --output-on-failure --no-tests=error

bench-train: build
	cmake --build build -j $(JOBS) --target bench_train
	build/bench_train

bench-sync: build
	cmake --build build -j $(JOBS) --target bench_sync
	experiments/bench_sync.py

install: build
	cmake --install build --prefix $(PREFIX)

sanitize: deps-test
	cmake --preset asan
	cmake --build build-asan -j $(JOBS) --target unit_tests
	ctest --preset asan

sanitize-thread: deps-test
	cmake --preset tsan
	cmake --build build-tsan -j $(JOBS) --target unit_tests
	ctest --preset tsan

clean:
	cmake -E rm -rf build build-asan build-tsan
