# SPDX-License-Identifier: Apache-2.0
# A thin front for Meson. BUILD=dir picks another build folder, MESON_ARGS passes options to its first configuration.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
MESON_ARGS ?=
# Tests that watch real processes may miss a moment on a busy machine: two more tries each, and the summary names them.
PYTEST_ARGS ?= -q --reruns 2 -rfERs
DEMO_ARGS ?= --for 60s
FUZZ_SECONDS ?= 20
VENV ?= $(BUILD)/venv
PYTHONS ?= build/pythons
# Test files at a time: they sleep for half of their time. 0: one after the other, in one process.
TEST_JOBS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))
ALULA = $(BUILD)/src/cli/alula

TEST_ENV = ALULA_BIN="$(abspath $(ALULA))" ALULA_BUILD="$(abspath $(BUILD))" \
	ALULA_STANDIN="$(abspath $(BUILD)/tests/standin/libnvidia-ml.so.1)"

.PHONY: all build configure deps demo test unit integration frameworks stacks browser bench install wheel deb packages aarch64 asan clang lint fuzz docs clean help

all: build

configure:
	@tools/install-deps --check || { echo "run 'make deps' (as root or with sudo) to install it" >&2; exit 1; }
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) --prefix $(PREFIX) $(MESON_ARGS)

build: configure
	@ninja -C $(BUILD)

deps:
	@tools/install-deps build

demo: deps
	@$(MAKE) --no-print-directory build
	@if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then \
		echo "NVIDIA driver found: watching this machine's GPUs ($(ALULA) watch $(DEMO_ARGS))"; \
		exec $(ALULA) watch $(DEMO_ARGS); \
	else \
		echo "No NVIDIA driver here: playing the recorded H200 session ($(ALULA) demo $(DEMO_ARGS))"; \
		exec $(ALULA) demo $(DEMO_ARGS); \
	fi

test:
	@tools/install-deps test
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory --keep-going unit integration

# Both assume a build; `make test` makes one first.
unit:
	@meson test -C $(BUILD) --no-rebuild --print-errorlogs

integration:
	@tools/venv $(VENV)
	@$(TEST_ENV) $(VENV)/bin/python -m pytest -n $(TEST_JOBS) --dist loadfile $(PYTEST_ARGS) tests/integration

# Real ms-swift, TRL, Lightning, DeepSpeed ..., each in an environment of its own (4 GiB, ten minutes to make).
frameworks:
	@tools/install-deps test
	@$(MAKE) --no-print-directory build
	@tools/venv $(VENV)
	@BUILD="$(BUILD)" tools/venv-frameworks
	@$(TEST_ENV) $(VENV)/bin/python -m pytest $(PYTEST_ARGS) -c tests/pytest.ini --rootdir tests tests/frameworks

# The stack sampler on real interpreters 3.8 to 3.15; those that this machine lacks are fetched or built (minutes, once).
stacks:
	@tools/install-deps test
	@$(MAKE) --no-print-directory build
	@tools/venv $(VENV)
	@PYTHON="$(abspath $(VENV))/bin/python" tools/pythons $(PYTHONS)
	@$(TEST_ENV) ALULA_PYTHONS="$(abspath $(PYTHONS))" $(VENV)/bin/python -m pytest $(PYTEST_ARGS) -c tests/pytest.ini --rootdir tests tests/stacks

# What alula profile writes, in a real browser and in speedscope's own app (a browser of 64 MiB, once).
browser:
	@tools/install-deps browser
	@$(MAKE) --no-print-directory build
	@tools/venv $(VENV)
	@tools/speedscope $(BUILD)/speedscope
	@$(TEST_ENV) ALULA_SPEEDSCOPE="$(abspath $(BUILD))/speedscope" $(VENV)/bin/python -m pytest $(PYTEST_ARGS) -c tests/pytest.ini --rootdir tests tests/browser

bench:
	@tools/install-deps bench
	@$(MAKE) --no-print-directory build
	@tools/venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	@$(TEST_ENV) $(VENV)/bin/python bench/run $(BENCH_ARGS)

install: build
	@meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir "$(abspath $(DESTDIR))")

# What is given away, in $(BUILD)/dist: docs/install.md.
wheel:
	@tools/install-deps package
	@BUILD=$(BUILD) tools/wheel

deb:
	@tools/install-deps package
	@BUILD=$(BUILD) tools/deb

# Builds both and installs them wherever they should run; as root, for the other Debians.
packages: wheel deb build
	@tools/venv $(VENV)
	@$(TEST_ENV) ALULA_DIST="$(abspath $(BUILD))/dist" $(VENV)/bin/python -m pytest $(PYTEST_ARGS) tests/packages

# Cross-built, and its unit tests under qemu-user.
aarch64:
	@tools/install-deps package
	@BUILD=$(BUILD) tools/aarch64 test

# The suite under ASan and UBSan; tests that load our .so into a foreign program (marker `plain`) and those
# that watch jobs for long (`slow`) are left out.
asan:
	@tools/install-deps test
	@$(MAKE) --no-print-directory build BUILD=$(BUILD)-asan \
		MESON_ARGS="-Db_sanitize=address,undefined -Db_lundef=false"
	@UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_stack_use_after_return=1 ALULA_SANITIZED=1 \
		$(MAKE) --no-print-directory --keep-going unit integration BUILD=$(BUILD)-asan VENV=$(VENV) \
		PYTEST_ARGS='$(PYTEST_ARGS) -m "not plain and not slow"'

# The second compiler, and the compile_commands.json that clang-tidy reads.
clang:
	@tools/install-deps ci
	@CC=clang-19 $(MAKE) --no-print-directory build BUILD=$(BUILD)-clang

lint:
	@tools/install-deps ci
	@$(MAKE) --no-print-directory clang
	@tools/lint tidy $(BUILD)-clang
	@tools/lint cppcheck $(BUILD)-clang

fuzz:
	@tools/install-deps ci
	@BUILD=$(BUILD) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run

# Generated pages; a test fails when they are out of date.
docs: build
	@$(ALULA) help --markdown > docs/metrics.md
	@tools/man-settings $(ALULA) man/alula.yaml.5 > $(BUILD)/alula.yaml.5 && cp $(BUILD)/alula.yaml.5 man/

clean:
	rm -rf $(BUILD) $(BUILD)-*

help:
	@echo "make            build into $(BUILD)/ (make deps first on a fresh machine)"
	@echo "make demo       install what is needed, build, and watch the GPUs (or play a recorded session)"
	@echo "make test       install what is needed, build, run all tests"
	@echo "make frameworks real ms-swift, TRL, Lightning, DeepSpeed under alula run (environments of 4 GiB)"
	@echo "make stacks     the stack sampler on CPython 3.8 to 3.15 (fetches or builds those that are missing)"
	@echo "make browser    flame graphs and other profiles in a real browser (installs Chromium)"
	@echo "make bench      side-by-side measurements against other tools"
	@echo "make install    install under PREFIX ($(PREFIX)), below DESTDIR if set"
	@echo "make wheel       the wheel for pip, in $(BUILD)/dist"
	@echo "make deb         the package for Debian, in $(BUILD)/dist"
	@echo "make packages    both, and the tests that install them"
	@echo "make aarch64     cross-build for aarch64, and its unit tests under qemu"
	@echo "make asan       the tests under AddressSanitizer and UBSan"
	@echo "make lint       clang-tidy and cppcheck"
	@echo "make fuzz       libFuzzer on the readers, FUZZ_SECONDS ($(FUZZ_SECONDS)) each"
	@echo "make docs       write docs/metrics.md and the settings in man/alula.yaml.5 anew"
	@echo "make clean      remove the build folders"
