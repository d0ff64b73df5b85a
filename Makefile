# Requires only bash, make and Python 3.13, 3.12 or 3.11 with pip and venv. The first use installs a hash lock into `.venv`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The Pythons that a lock is for, the best one first: main.txt has the newest JAX, which no longer runs on 3.11; floor.txt the
# oldest versions of all packages.
MAIN_PYTHONS := 3.13 3.12
FLOOR_PYTHONS := 3.11
FIND_PYTHON := third_party/find_python.sh
ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell $(FIND_PYTHON) $(MAIN_PYTHONS) $(FLOOR_PYTHONS) 2>/dev/null)
endif
# If none was found, the recipe of `.venv` says so, or installs the first one with uv.
PYTHON_VERSION := $(if $(PYTHON),$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1),$(firstword $(MAIN_PYTHONS)))
WORKERS ?= 2
SUDO ?= $(shell test "$$(id -u)" = 0 || echo sudo)
PACKAGES := xla_call_module graphdef_ir ops_jax convert savedmodel_io hub_io testing tools
# The wheel `graftax`, which only names the others.
UMBRELLA := tools/packaging/umbrella

VENV := .venv
BIN := $(VENV)/bin
LOCK := third_party/locks/$(if $(filter $(FLOOR_PYTHONS),$(PYTHON_VERSION)),floor,main).txt
RELEASE_VENV := .venv-release
RELEASE_LOCK := third_party/locks/release.txt
DOCS_VENV := .venv-docs
DOCS_LOCK := third_party/locks/docs.txt
hash = $(firstword $(shell { $(1); } | sha256sum))
# The name of a stamp contains a hash of its sources, so that a changed lock or pyproject.toml renews it.
LOCKED := $(VENV)/.locked-$(call hash,cat $(LOCK))
READY := $(VENV)/.editable-$(call hash,cat $(LOCK) $(addsuffix /pyproject.toml,$(PACKAGES) $(UMBRELLA)); echo $(CURDIR))
RELEASE_READY := $(RELEASE_VENV)/.locked-$(call hash,cat $(RELEASE_LOCK))
DOCS_READY := $(DOCS_VENV)/.locked-$(call hash,cat $(DOCS_LOCK))
# $(call install_lock,VENV,LOCK): installs exactly what a lock lists.
install_lock = $(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
	  --require-hashes -r $(2)

export TF_CPP_MIN_LOG_LEVEL ?= 2

# Tests spend most of their time compiling small XLA programs, so runs (Bazel's too) share a compilation cache: a file of op
# tests then takes a quarter of the time. The key holds program, versions and flags, so a hit never changes a result.
JAX_CACHE := $(CURDIR)/.jax_cache
test test-free test-slow test-all bazel-test mutation-check op-checks: export JAX_COMPILATION_CACHE_DIR = $(JAX_CACHE)
test test-free test-slow test-all bazel-test mutation-check op-checks: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = 0
test test-free test-slow test-all bazel-test mutation-check op-checks: export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES = 0

.PHONY: help
help:  ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

$(LOCKED): $(LOCK)
	$(if $(filter $(MAIN_PYTHONS) $(FLOOR_PYTHONS),$(PYTHON_VERSION)),,$(error PYTHON=$(PYTHON) is $(PYTHON_VERSION); the locks are for Python $(MAIN_PYTHONS) $(FLOOR_PYTHONS)))
	python=$(or $(PYTHON),$$($(FIND_PYTHON) --install $(MAIN_PYTHONS) $(FLOOR_PYTHONS))); rm -rf $(VENV); "$$python" -m venv $(VENV)
	@echo "Installing $(LOCK) into $(VENV) (2.5 GB, a few minutes on first use)"
	$(call install_lock,$(VENV),$(LOCK))
	touch $@

$(READY): $(LOCKED)
	rm -f $(VENV)/.editable-*
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation $(addprefix -e ./,$(PACKAGES) $(UMBRELLA))
	touch $@

.PHONY: venv
venv: $(READY)  ## create .venv from the lock, with the eight packages editable

.PHONY: demo
demo: $(READY)  ## convert a small model and compare it with TensorFlow
	$(BIN)/python -m graftax.tools.demo

.PHONY: check
check: $(READY)  ## format, lint, layers and types, without running the code
	@status=0; for tool in "ruff format --check ." "ruff check ." "lint-imports" "mypy"; do \
	  echo "== $$tool"; PYTHONPATH=tools/checks $(BIN)/$$tool || status=1; done; exit $$status

# conftest.py puts long files first.
DISTRIBUTED := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# $(call pytest_rings,WHICH): runs the tests that the marker expression WHICH selects, in both rings.
pytest_rings = status=0; for ring in free tensorflow; do echo "== tests, ring $$ring, $(1)"; \
	  $(BIN)/pytest --ring=$$ring -m $(1) $(DISTRIBUTED) || [ $$? = 5 ] || status=1; done; exit $$status

.PHONY: test
test: $(READY)  ## the fast tests: first those without TensorFlow, then those with it
	@$(call pytest_rings,"not slow")

.PHONY: test-free
test-free: $(READY)  ## the fast tests without TensorFlow
	$(BIN)/pytest --ring=free -m "not slow" $(DISTRIBUTED)

.PHONY: floor
floor:  ## the fast tests without TensorFlow with the oldest versions that the wheels declare, on Python 3.11 in .venv-floor
	python=$$($(FIND_PYTHON) --install $(FLOOR_PYTHONS)); $(MAKE) test-free VENV=.venv-floor PYTHON="$$python"

.PHONY: ceiling
ceiling: wheels  ## the fast tests without TensorFlow from the wheels, with the newest pre-release of every dependency
	$(BIN)/python tools/checks/version_matrix.py --wheels dist --tests --pre --python $(PYTHON_VERSION)

.PHONY: test-slow
test-slow: $(READY)  ## the tests that `make test` leaves out: whole models, the differential suite, generated cases
	@$(call pytest_rings,"slow")

# Every N-th of the slow tests, or of the fast ones under Bazel, from the K-th on, as K/N.
PART ?= 1/1

.PHONY: test-all
test-all: $(READY)  ## every test: those of `make test` and `make test-slow`, in one run for each ring; PART=2/3 for a third of the slow ones
	@$(call pytest_rings,"slow or not slow" --part=$(PART))

LIBRARIES_VENV := .venv-jax-libraries
LIBRARIES := testing/graftax/testing/jax_libraries
LIBRARIES_READY := $(LIBRARIES_VENV)/.locked-$(call hash,cat $(LIBRARIES)/requirements.txt)
# More interpreters whose TensorFlow runs the models: make jax-libraries TENSORFLOW="PYTHON ..."
TENSORFLOW ?=

$(LIBRARIES_READY): $(LIBRARIES)/requirements.txt
	python=$$($(FIND_PYTHON) --install $(firstword $(MAIN_PYTHONS))); rm -rf $(LIBRARIES_VENV); "$$python" -m venv $(LIBRARIES_VENV)
	$(LIBRARIES_VENV)/bin/python -m pip install --quiet --no-deps -r $<
	touch $@

.PHONY: jax-libraries
jax-libraries: $(LIBRARIES_READY)  ## write programs of JAX libraries as SavedModels and run them in TensorFlow (half an hour)
	PYTHONPATH=$(subst $() ,:,$(PACKAGES)) JAX_PLATFORMS=cpu $(LIBRARIES_VENV)/bin/python -m graftax.testing.jax_libraries \
	  build/jax_libraries --tensorflow $(LIBRARIES_VENV)/bin/python $(TENSORFLOW)

MATCHED := testing/graftax/testing/matched_models/requirements.txt
MATCHED_VENV := .venv-matched-models
MATCHED_READY := $(MATCHED_VENV)/.locked-$(call hash,cat $(MATCHED) third_party/locks/main.txt)

$(MATCHED_READY): $(MATCHED)
	python=$$($(FIND_PYTHON) --install $(firstword $(MAIN_PYTHONS))); rm -rf $(MATCHED_VENV); "$$python" -m venv $(MATCHED_VENV)
	$(MATCHED_VENV)/bin/python -m pip install --quiet --no-deps -r third_party/locks/main.txt
	$(MATCHED_VENV)/bin/python -m pip install --quiet --no-deps -r $<
	touch $@

.PHONY: matched-models
matched-models: $(MATCHED_READY)  ## put Keras's weights into models that others wrote for JAX, and print a table (20 minutes)
	PYTHONPATH=$(subst $() ,:,$(PACKAGES)) JAX_PLATFORMS=cpu KERAS_BACKEND=tensorflow \
	  $(MATCHED_VENV)/bin/python -m graftax.testing.matched_models

LARGE_DATA_VENV := .venv-large-data
LARGE_DATA := docs/examples/large_data/requirements.txt
LARGE_DATA_READY := $(LARGE_DATA_VENV)/.locked-$(call hash,cat $(LARGE_DATA))

$(LARGE_DATA_READY): $(LARGE_DATA)
	python=$$($(FIND_PYTHON) --install $(firstword $(MAIN_PYTHONS))); rm -rf $(LARGE_DATA_VENV); "$$python" -m venv $(LARGE_DATA_VENV)
	$(LARGE_DATA_VENV)/bin/python -m pip install --quiet --no-deps -r $<
	touch $@

.PHONY: large-data
large-data: $(LARGE_DATA_READY)  ## run the examples of Apache Beam and Ray Data
	PYTHONPATH=$(subst $() ,:,$(PACKAGES)) $(LARGE_DATA_VENV)/bin/python -m pytest -q -k engine tools/checks/large_examples_test.py

CONSUMERS := testing/graftax/testing/consumers
CONSUMERS_VENV := .venv-consumers
CONSUMERS_READY := $(CONSUMERS_VENV)/.locked-$(call hash,cat $(CONSUMERS)/requirements-*.txt)
CONSUMERS_PYTHON := 3.12

$(CONSUMERS_READY): $(wildcard $(CONSUMERS)/requirements-*.txt)
	rm -rf $(CONSUMERS_VENV)
	python=$$($(FIND_PYTHON) --install $(CONSUMERS_PYTHON)); for name in converters iree; do \
	  "$$python" -m venv $(CONSUMERS_VENV)/$$name; \
	  $(CONSUMERS_VENV)/$$name/bin/python -m pip install --quiet --no-deps -r $(CONSUMERS)/requirements-$$name.txt; done
	npm install --silent --no-audit --no-fund --no-package-lock --prefix $(CONSUMERS_VENV) $$(cat $(CONSUMERS)/requirements-node.txt)
	touch $@

.PHONY: consumers
consumers: $(READY) $(CONSUMERS_READY)  ## run functions and models in TFLite, ONNX Runtime, TF.js and IREE, docs/consumers.md (16 minutes)
	NODE_PATH=$(CURDIR)/$(CONSUMERS_VENV)/node_modules JAX_PLATFORMS=cpu $(BIN)/python -m graftax.testing.consumers \
	  build/consumers $(foreach name,tensorflow tflite onnx tfjs,--$(name) $(CONSUMERS_VENV)/converters/bin/python) \
	  --iree $(CONSUMERS_VENV)/iree/bin/python $(addprefix --tensorflow ,$(TENSORFLOW)) --write docs/consumers.md

WRITTEN_VENV := .venv-written-models
WRITTEN_READY := $(WRITTEN_VENV)/.locked-$(call hash,cat third_party/locks/main.txt)

$(WRITTEN_READY): third_party/locks/main.txt
	python=$$($(FIND_PYTHON) --install $(firstword $(MAIN_PYTHONS))); rm -rf $(WRITTEN_VENV); "$$python" -m venv $(WRITTEN_VENV)
	grep -E '^(jax|jaxlib|ml-dtypes|numpy|opt-einsum|scipy)==' $< > $(WRITTEN_VENV)/locked.txt
	$(WRITTEN_VENV)/bin/python -m pip install --quiet --no-deps -r $(WRITTEN_VENV)/locked.txt
	touch $@

.PHONY: written-models
written-models: $(READY) $(WRITTEN_READY)  ## write models as source, run them with jax alone, docs/written_models.md (hours; goes on where it stopped); MODULES=folder
	JAX_PLATFORMS=cpu $(BIN)/python -m graftax.testing.written_models build/written_models \
	  --python $(WRITTEN_VENV)/bin/python $(if $(MODULES),--modules $(MODULES)) --write docs/written_models.md

.PHONY: mutation-check
mutation-check: $(READY)  ## break places one at a time and report which command detects each (minutes)
	$(BIN)/python tools/checks/mutation_check.py

BAZEL_TARGETS ?= //...

.PHONY: bazel-test-tensorflow
bazel-test-tensorflow:  ## the tests against TensorFlow under Bazel
	$(MAKE) bazel-test BAZEL_TARGETS="$(PACKAGES:%=//%:tests_tensorflow)"

.PHONY: bazel
bazel:
	@command -v bazel-4 >/dev/null || { echo "Installing Debian's Bazel 4"; $(SUDO) apt-get update -qq; \
	  DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -qq -y --no-install-recommends bazel-bootstrap python3-venv >/dev/null; }

.PHONY: bazel-test
bazel-test: bazel $(READY)  ## fast tests without TensorFlow under Bazel, with declared dependencies only; also builds the wheels; PART=2/3 for a third
	mkdir -p $(JAX_CACHE)
	bazel-4 --max_idle_secs=30 test --repo_env=GRAFTAX_LOCKED_VENV=$(CURDIR)/$(VENV) \
	  --repo_env=PYTHON_BIN_PATH=$$(realpath $(BIN)/python) \
	  --test_env=JAX_COMPILATION_CACHE_DIR --test_env=JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS \
	  --test_env=JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES --sandbox_writable_path=$(JAX_CACHE) \
	  --test_arg=--part-of-fast=$(PART) $(BAZEL_TARGETS)

BAZEL_ACCELERATORS := cpu cuda12 cuda13 tpu

.PHONY: bazel-analysis
bazel-analysis: bazel  ## analyse all targets under Bazel for each accelerator, without installing its packages
	@base=$$(mktemp -d); trap 'bazel-4 --output_base=$$base shutdown; chmod -R u+w $$base; rm -rf $$base' EXIT; \
	  for accelerator in $(BAZEL_ACCELERATORS); do echo "== $$accelerator"; \
	    bazel-4 --output_base=$$base build --config=by_name --config=$$accelerator //...; done

.PHONY: bazel-rooms
bazel-rooms: $(READY)  ## update the Bazel targets of rooms, <package>/rooms.bzl, after imports or rooms changed
	$(BIN)/python tools/checks/room_targets.py

.PHONY: bazel-lint
bazel-lint:  ## format and lint of the Bazel files, with buildifier from npm
	git ls-files -z '*BUILD' '*.bzl' '*MODULE.bazel' '*WORKSPACE' | xargs -0 npx --yes @bazel/buildifier@8.2.1 -mode=check -lint=warn

.PHONY: bazel-embedder
bazel-embedder: bazel  ## build and test a second workspace that depends on xla_call_module alone, with another version of JAX
	cd examples/bazel_embedder && bazel-4 --max_idle_secs=30 test //...

PYTHON_ARCHIVE ?=
BAZEL7 ?= build/bazel7

.PHONY: bazel7-test
bazel7-test:  ## build and test the tree with Bazel 7 in a chroot of Debian sid, as root; PYTHON_ARCHIVE=python.tar.gz
	tools/build_defs/bazel7_chroot.sh $(BAZEL7) $(PYTHON_ARCHIVE) $(if $(filter-out //...,$(BAZEL_TARGETS)),$(BAZEL_TARGETS))

.PHONY: wheels
wheels: $(READY)  ## build the wheels in dist/, reproducible byte for byte
	rm -rf dist
	$(BIN)/python tools/packaging/build_wheel.py --out dist $(PACKAGES) $(UMBRELLA)

$(RELEASE_READY): $(READY) $(RELEASE_LOCK)
	rm -rf $(RELEASE_VENV)
	$(BIN)/python -m venv $(RELEASE_VENV)
	$(call install_lock,$(RELEASE_VENV),$(RELEASE_LOCK))
	touch $@

.PHONY: resolve-wheels
resolve-wheels: $(READY)  ## ask uv whether all wheels, with all extras, have binaries on each system and Python
	PYTHONPATH=tools/checks $(BIN)/python tools/packaging/resolve_wheels.py

.PHONY: conda-recipes
conda-recipes: $(READY)  ## renew the recipes for conda-forge, tools/packaging/conda
	PYTHONPATH=tools/checks $(BIN)/python tools/packaging/conda_recipes.py

.PHONY: release-rehearsal
release-rehearsal: $(RELEASE_READY)  ## build dist/, check it, install graftax[all] from it and run the demo (docs/release.md)
	PYTHONPATH=tools/checks $(BIN)/python tools/packaging/rehearse_release.py --tools $(RELEASE_VENV)/bin

.PHONY: bump
bump: $(READY)  ## set the version of all packages and roll the changelogs: make bump VERSION=0.2.0
	PYTHONPATH=tools/checks $(BIN)/python tools/packaging/bump_version.py $(VERSION)

.PHONY: release-check
release-check: $(READY)  ## fail if the tree is not ready to be released under a tag: make release-check TAG=v0.2.0
	PYTHONPATH=tools/checks $(BIN)/python tools/packaging/bump_version.py --check $(TAG)

.PHONY: tree-archive
tree-archive:  ## pack the tree of a tag, which .bcr/source.template.json names, into build/: make tree-archive TAG=v0.2.0
	mkdir -p build
	git archive --prefix=graftax-$(TAG:v%=%)/ --output=build/graftax-$(TAG).tar.gz $(TAG)

.PHONY: cleanroom
cleanroom: $(READY)  ## install each wheel in its own venv and run its smoke test (slow; `make test` runs a fast form)
	$(BIN)/python tools/checks/cleanroom.py

CLOSURES ?=
DEVICE ?=

.PHONY: closures
closures: $(READY)  ## install the accelerators' locks one by one, import JAX and the plugins, and check them (gigabytes)
	$(BIN)/python third_party/locks/check_closures.py $(or $(CLOSURES),cuda12 cuda13 tpu) $(if $(DEVICE),--device $(DEVICE) --wheels dist)

.PHONY: gpu-test
gpu-test: wheels  ## the smoke tests of all wheels and the tests of devices on a GPU, with CLOSURES=cuda13 or cuda12
	$(MAKE) closures CLOSURES="$(or $(filter cuda%,$(CLOSURES)),cuda13)" DEVICE=$(or $(DEVICE),cuda)

.PHONY: tpu-test
tpu-test: wheels  ## the smoke tests of all wheels and the tests of devices on a TPU
	$(MAKE) closures CLOSURES=tpu DEVICE=$(or $(DEVICE),tpu)

MATRIX ?=

.PHONY: matrix
matrix: wheels  ## try the wheels on each Python and JAX, and print a table (an hour); MATRIX="--tests xla_call_module"
	$(BIN)/python tools/checks/version_matrix.py --wheels dist $(MATRIX)

.PHONY: applications
applications: $(READY)  ## every model of keras.applications, including the large ones (an hour)
	GRAFTAX_ALL_APPLICATIONS=1 $(BIN)/pytest --ring=tensorflow testing/graftax/testing/keras_applications_test.py

.PHONY: keras-export
keras-export: $(READY)  ## Keras's own tests of exporting, on its JAX backend with our jax2tf in place (5 minutes)
	mkdir -p build
	KERAS_BACKEND=jax JAX_PLATFORMS=cpu $(BIN)/pytest -q -p graftax.testing.keras_export -p no:cacheprovider --rootdir build \
	  -c /dev/null --pyargs keras.src.export.saved_model_test keras.src.export.tfsm_layer_test

.PHONY: c-api
c-api: $(READY)  ## 100,000 calls of a SavedModel with changing sizes from a C program, in both forms
	JAX_PLATFORMS=cpu $(BIN)/python -m graftax.testing.c_api build/c_api

HOSTILE_SEED ?= $(shell date +%j0)

.PHONY: hostile-files
hostile-files: $(READY)  ## read 5,000 hostile files with new seeds in watched processes
	$(BIN)/python -m graftax.testing.hostile --cases 5000 --seed $(HOSTILE_SEED) --workers $(WORKERS) --shrink

.PHONY: fix
fix: $(READY)  ## format, and apply the linter's fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: public-api
public-api: $(READY)  ## update the golden lists of public names, <package>/public_api.txt
	$(BIN)/python tools/checks/public_api.py

.PHONY: op-index
op-index: $(READY)  ## update the tables and pages of ops and primitives, from the registries and the table of `make op-checks`
	$(BIN)/python -m graftax.tools.codegen.generate_lowering_modules
	$(BIN)/python -m graftax.tools.codegen.generate_outward_ops
	$(BIN)/python -m graftax.tools.codegen.generate_op_sources
	$(BIN)/python -m graftax.tools.codegen.generate_op_index
	$(BIN)/python -m graftax.tools.codegen.generate_primitive_index
	$(BIN)/python -m graftax.tools.codegen.generate_stablehlo_index
	$(BIN)/python -m graftax.tools.codegen.generate_cpu_kernels

OP_EVIDENCE := build/op_evidence

.PHONY: op-checks
op-checks: $(READY)  ## check ops and programs against TensorFlow, and renew the table that docs/ops.md shows (an hour)
	rm -rf $(OP_EVIDENCE)
	GRAFTAX_OP_EVIDENCE=$(OP_EVIDENCE) $(BIN)/pytest -q --ring=tensorflow -m "not slow" $(DISTRIBUTED) \
	  -p graftax.testing.op_facts.recording $$(git grep -l check_raw_op -- 'ops_jax/*_test.py') \
	  testing/graftax/testing/symbolic_shapes_test.py
	$(BIN)/python -m graftax.testing.op_facts $(OP_EVIDENCE) --jobs $(WORKERS) \
	  --functions tools/graftax/tools/codegen/function_checks.json --write tools/graftax/tools/facts/op_checks.json
	$(MAKE) op-index

$(DOCS_READY): $(READY) $(DOCS_LOCK)
	rm -rf $(DOCS_VENV)
	$(BIN)/python -m venv $(DOCS_VENV)
	$(call install_lock,$(DOCS_VENV),$(DOCS_LOCK))
	touch $@

.PHONY: docs
docs: $(DOCS_READY)  ## build the site in build/docs/html; broken links are errors
	$(BIN)/python tools/site/stage_pages.py build/docs/source
	$(DOCS_VENV)/bin/sphinx-build -q -W --keep-going -b html -d build/docs/doctrees build/docs/source build/docs/html
	@echo "open build/docs/html/index.html"

.PHONY: error-index
error-index: $(READY)  ## update docs/errors.md, which shows when each public error is raised and what works
	$(BIN)/python -m graftax.tools.codegen.generate_error_index

.PHONY: source-examples
source-examples: $(READY)  ## update docs/examples/written_source, four models of Keras as `graftax source` writes them
	$(BIN)/python -m graftax.tools.codegen.generate_source_examples

.PHONY: bench
bench: $(READY)  ## measure speed and memory
	$(BIN)/python -m graftax.tools.benchmarks

RUNTIMES_VENV := .venv-runtimes
RUNTIMES_REQUIREMENTS := tools/graftax/tools/benchmarks/runtimes/requirements.txt
RUNTIMES_READY := $(RUNTIMES_VENV)/.locked-$(call hash,cat $(RUNTIMES_REQUIREMENTS))

$(RUNTIMES_READY): $(RUNTIMES_REQUIREMENTS)
	rm -rf $(RUNTIMES_VENV)
	"$$($(FIND_PYTHON) --install $(CONSUMERS_PYTHON))" -m venv $(RUNTIMES_VENV)
	$(RUNTIMES_VENV)/bin/python -m pip install --quiet -r $(RUNTIMES_REQUIREMENTS)
	touch $@

.PHONY: bench-runtimes
bench-runtimes: $(READY) $(CONSUMERS_READY) $(RUNTIMES_READY)  ## run times of 24 networks beside other frameworks, at rest (an hour); NETWORKS= some
	JAX_PLATFORMS=cpu $(BIN)/python -m graftax.tools.benchmarks.runtimes $(NETWORKS) \
	  --tf2onnx $(CONSUMERS_VENV)/converters/bin/python \
	  $(foreach name,ONNX_Runtime OpenVINO TFLite,--environment "$(subst _, ,$(name))=$(RUNTIMES_VENV)/bin/python")

.PHONY: bench-page
bench-page: $(READY)  ## keep the medians of the last `make bench` in docs/benchmarks, and draw docs/benchmarks.md again
	$(BIN)/python -m graftax.tools.benchmarks.plots $(if $(wildcard build/benchmarks/results.json),--add build/benchmarks/results.json)

.PHONY: typed-examples
typed-examples: wheels  ## check the types of docs/examples with pyright and mypy against the wheels
	$(BIN)/python tools/checks/typed_examples.py dist

EMBEDDER := ../../examples/bazel_embedder

.PHONY: lock
lock: $(READY)  ## resolve third_party/locks/*.in again and print what changed; LOCK_OPTIONS=--keep changes little
	$(BIN)/python third_party/locks/lock.py $(LOCK_OPTIONS) main floor cuda12 cuda13 tpu release docs $(EMBEDDER)/requirements

.PHONY: clean
clean:  ## remove .venv, wheels and caches
	rm -rf $(VENV) .venv-floor $(RELEASE_VENV) $(DOCS_VENV) $(LIBRARIES_VENV) $(CONSUMERS_VENV) $(LARGE_DATA_VENV) dist build .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis .jax_cache
