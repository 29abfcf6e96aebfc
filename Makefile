# Two commands on a fresh machine with Python 3.11 (with headers) and g++ 12:
#
#   make demo     set everything up, then compile a real model, compare it with eager, and time it beside torch._dynamo
#   make test     set everything up, then run all tests (C++ unit tests too). Those of a page want a browser, which pip
#                 cannot install: apt-get install chromium fonts-dejavu-core
#
# Each step leaves a stamp, so the second time only what changed is done. Nothing is installed outside of .venv.
#
#   PYTHON=…      the interpreter (3.11)                      PYTEST_ARGS=…  for pytest, e.g. PYTEST_ARGS="-k bytecode"
#   TORCH_ARGS=…  for the installation of torch, e.g. TORCH_ARGS="--index-url https://download.pytorch.org/whl/cpu"
#   JOBS=…        parallel compilers (default: all cores)        BENCH_ARGS=…   for the bench
#   FORCE_EVERY=… numbers for test-forced, e.g. FORCE_EVERY=2,5
#   BUDGET_ARGS=… for the budget of instructions, e.g. BUDGET_ARGS=--update
#   FUZZ_ARGS=…   for the fuzzer                                 CONFORMANCE_ARGS=…  for CPython's own tests, compiled

PYTHON ?= python3.11
JOBS ?= $(shell nproc)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PIP := $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check

export PATH := $(abspath $(BIN)):$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

.PHONY: demo test test-forced test-dynamic test-emitted bench corpus budget fuzz conformance lint docs pictures format tidy asan build venv clean
.DELETE_ON_ERROR:

demo: build $(STAMP)-models
	$(BIN)/python -m pellucid.demo $(DEMO_ARGS)

test: build $(STAMP)-test $(STAMP)-models
	PELLUCID_UNIT=build/release/tests/pellucid_unit.so $(BIN)/python -m pytest $(PYTEST_ARGS)

# Every test once more with regions that end after each so many instructions: tests/support/forced_breaks.py.
FORCE_EVERY ?= 3,5,13
test-forced: build $(STAMP)-test $(STAMP)-models
	PELLUCID_UNIT=build/release/tests/pellucid_unit.so $(BIN)/python -m pytest -m "not slow" --force-break-every $(FORCE_EVERY) $(PYTEST_ARGS)

# What each region emits against its printed text, compiled: tests/support/emitted.py.
test-emitted: build $(STAMP)-test $(STAMP)-models
	PELLUCID_UNIT=build/release/tests/pellucid_unit.so $(BIN)/python -m pytest -n 0 -m "not slow" --check-emitted tests/breaks tests/runtime tests/state $(PYTEST_ARGS)

# Every test once more with all sizes and numbers open from the first capture on.
test-dynamic: build $(STAMP)-test $(STAMP)-models
	PELLUCID_UNIT=build/release/tests/pellucid_unit.so $(BIN)/python -m pytest -m "not slow" --force-break-every open $(PYTEST_ARGS)

bench: build $(STAMP)-test $(STAMP)-models
	$(BIN)/python bench/run.py $(BENCH_ARGS)
	$(BIN)/python bench/calls.py
	$(BIN)/python bench/breaks.py
	$(BIN)/python bench/steps.py

# Programs around models against eager, and their graphs beside torch.compile's: bench/corpus.py --help.
corpus: build $(STAMP)-test $(STAMP)-models
	$(BIN)/python bench/corpus.py $(CORPUS_ARGS)

# Instructions of calls, captures and breaks against bench/budget.json: bench/budget.py --help. Needs valgrind and its
# headers.
budget: build $(STAMP)-models
	PYTHONPATH=$(abspath python) $(BIN)/python bench/budget.py $(BUDGET_ARGS)

# Random programs, eager against compiled: tools/fuzz --help. FUZZ_ARGS="--count 20000 --out fuzz_out"
fuzz: build $(STAMP)-test
	$(BIN)/python tools/fuzz $(FUZZ_ARGS)

# CPython's own tests with their methods compiled: tools/conformance --help. CONFORMANCE_ARGS="list dict --torch-ops"
conformance: build
	$(BIN)/python tools/conformance $(CONFORMANCE_ARGS)

# ---- environment ----

venv: $(STAMP)-build $(STAMP)-test $(STAMP)-models

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info[:2] == (3, 11), "pellucid needs CPython 3.11, this is " + sys.version'
	$(PYTHON) -m venv $(VENV)

# torch first: nothing that comes later may choose another one.
$(STAMP)-torch: requirements/torch.txt | $(BIN)/python
	$(PIP) $(TORCH_ARGS) -r $<
	@touch $@

$(STAMP)-build: requirements/build.txt $(STAMP)-torch
	$(PIP) -r $<
	@touch $@

$(STAMP)-test: requirements/test.txt $(STAMP)-torch
	$(PIP) -r $<
	@touch $@

$(STAMP)-models: requirements/models.txt $(STAMP)-test
	$(PIP) --no-deps -r $<
	@touch $@

$(STAMP)-lint: requirements/lint.txt | $(BIN)/python
	$(PIP) -r $<
	@touch $@

# ---- the core ----

# ninja knows what to rebuild; a second run takes a fraction of a second.
build: build/release/build.ninja $(STAMP)-path
	@cmake --build build/release
	@ln -sfn ../../build/release/python/pellucid/_core.so python/pellucid/_core.so

build/%/build.ninja: CMakePresets.json $(STAMP)-build
	cmake --preset $* -DPython_EXECUTABLE=$(abspath $(BIN)/python)
	@touch $@

# Puts python/ on the environment's path, behind PYTHONPATH (an editable installation would come before it and hide
# other builds).
$(STAMP)-path: $(STAMP)-build
	$(BIN)/python -c 'import pathlib, sysconfig; \
	pathlib.Path(sysconfig.get_path("purelib"), "pellucid.pth").write_text("$(abspath python)\n")'
	@touch $@

# ---- quality ----

SOURCES = $(shell git ls-files 'src/*.h' 'src/*.cpp' 'tests/*.h' 'tests/*.cpp')

# mypy reads the types of torch and numpy.
lint: $(STAMP)-lint $(STAMP)-test
	$(BIN)/python tools/check_rooms.py
	$(BIN)/python tools/gates
	$(BIN)/clang-format --dry-run -Werror $(SOURCES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if command -v clang-tidy >/dev/null; \
	then $(MAKE) --no-print-directory tidy TIDY_FILES="$(filter-out src/aten/%,$(filter %.cpp,$(CHANGED)))"; \
	else echo "clang-tidy is not installed: skipped"; fi

# The pages, and the parts of pages, that are made from the code.
docs: build
	PYTHONPATH=$(abspath python) $(BIN)/python tools/reasons_page.py
	PYTHONPATH=$(abspath python) $(BIN)/python tools/config_page.py
	PYTHONPATH=$(abspath python) $(BIN)/python tools/opcodes.py
	PYTHONPATH=$(abspath python) $(BIN)/python tools/design_pages.py

# The pictures of docs/explain.md. Needs Chromium: apt-get install chromium fonts-dejavu-core
pictures: build $(STAMP)-test
	PELLUCID_PICTURES=$(abspath docs/pictures) $(BIN)/python -m pytest -q tests/tools/test_explain_page.py -k picture

format: $(STAMP)-lint
	$(BIN)/clang-format -i $(SOURCES)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# All files but those of aten, whose torch headers take clang-tidy a minute each. `make lint` looks at what changed
# since the last commit but one; TIDY_FILES=… chooses.
CHANGED = $(shell git diff --name-only --diff-filter=d HEAD~1 -- src)
TIDY_FILES ?= $(filter-out src/aten/%,$(filter src/%.cpp,$(SOURCES)))
tidy: build/release/build.ninja
	printf '%s\n' $(TIDY_FILES) | xargs -r -P $(JOBS) -n 2 clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p build/release

# AddressSanitizer and UndefinedBehaviorSanitizer, with every test but those marked slow; ASAN_TESTS=… chooses. Python's
# own allocator would hide errors, and leaks are looked for by tests of our own, since torch and CPython keep much alive
# on purpose. Reports go to files: what a dying process writes is lost in pytest's capture.
ASAN_TESTS ?= tests -m "not slow"
REPORT = $(abspath build/asan)/report
asan: build/asan/build.ninja $(STAMP)-test $(STAMP)-models
	cmake --build build/asan
	@mkdir -p build/asan/python/pellucid
	@for file in python/pellucid/*; do case $$file in *.so|*__pycache__) ;; *) ln -sfn ../../../../$$file build/asan/python/pellucid/ ;; esac; done
	@rm -f $(REPORT).*
	PYTHONPATH=$(abspath build/asan/python) PELLUCID_UNIT=build/asan/tests/pellucid_unit.so PYTHONMALLOC=malloc \
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:log_path=$(REPORT) \
	UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:log_path=$(REPORT) \
	$(BIN)/python -X faulthandler -m pytest -o pythonpath=tests $(ASAN_TESTS) $(PYTEST_ARGS) || failed=$$?; \
	! cat $(REPORT).* 2>/dev/null && exit $$failed

clean:
	rm -rf build python/pellucid/_core.so
