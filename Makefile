# CMake and CTest do the work; this file gives it short names. `make help` lists them.
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
FUZZ_RUNS ?= 0
WERROR ?= OFF
CUDA ?= AUTO
comma := ,
unexport MAKEFLAGS MFLAGS

# $(call build,FOLDER,OPTIONS,TARGET): configures once, then builds what changed.
build = @tools/deps.sh build && \
	{ [ -f $(1)/CTestTestfile.cmake ] || cmake -S . -B $(1) \
	    $$(if command -v ninja > /dev/null; then echo -G Ninja; fi) -DHIL_WERROR=$(WERROR) -DHIL_CUDA=$(CUDA) $(2); } && \
	$(if $(filter file,$(origin CUDA)),,cmake -DHIL_CUDA=$(CUDA) $(1) > /dev/null &&) \
	MAKEFLAGS=--no-print-directory cmake --build $(1) -j $(JOBS) $(3)
# Tests wait for disks and for one another: two for each core keep it busy.
ctest = @ctest --output-on-failure --no-label-summary -j $$((2 * $(JOBS))) --test-dir

.PHONY: hilbert all demo transcripts paper test soak bench bench-gpu predictions lint format asan tsan fuzz install abi bundle wheel clean help

hilbert: ## the program and the library: build/hilbert (the default)
	$(call build,$(BUILD),,--target hilbert)

all: ## the program, the library and all tests
	$(call build,$(BUILD))

demo: hilbert ## train a small model on hilbert's own sources, about two minutes
	@tools/demo.sh $(BUILD)

transcripts: hilbert ## rewrite the outputs shown in README.md and docs/ (DATA: stories260K and tinyshakespeare.txt)
	@tools/transcripts.sh write $(BUILD)/hilbert $(DATA)

paper: hilbert ## the tables and plots of docs/scale.md: ZeRO-Infinity's paper beside plans, in many minutes (ONLY)
	@python3 -B tools/paper.py write $(BUILD)/hilbert $(ONLY)

test: all ## every test
	$(ctest) $(BUILD)

soak: all ## the long versions of the long tests
	$(ctest) $(BUILD) -C soak -L soak

bench: all ## speed against PyTorch on the same cores in the same run
	@tools/deps.sh bench && cmake --build $(BUILD) -j $(JOBS) --target benches && python3 bench/run.py

bench-gpu: hilbert ## all of bench/gpu.py: one GPU against PyTorch on it, about 17 minutes (ONLY, HILBERT)
	@python3 bench/gpu.py $(if $(HILBERT),--hilbert $(HILBERT)) $(if $(ONLY),--only $(ONLY) --append)

predictions: hilbert ## what plans predict beside what runs take, in less than ten minutes (ONLY)
	@python3 bench/predictions.py $(if $(ONLY),--only $(ONLY))

lint: ## layering, sizes, banned calls, names in documents, format, clang-tidy
	@tools/deps.sh build lint && tools/lint.sh

format: ## clang-format everything
	@tools/deps.sh lint && find src include tests fuzz bench examples \
	    \( -name '*.[ch]' -o -name '*.cu' \) -not -path '*/golden/*' 2> /dev/null | xargs clang-format -i

# Left out: jobs that are killed or cut off, speeds, and the slowest, whose code other tests cover.
asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call build,build-asan,-DHIL_SANITIZE=address$(comma)undefined)
	$(ctest) build-asan -LE 'lint|install|docs' -E '^test_(adapter_gated|bench_cards|bench_gpu|bench_operations|bench_predictions|bench_torch|campaign_export|campaign_faults|campaign_kills|campaign_live|cli_bench|cli_device|cli_plan|cli_plan_gpu|cli_plan_time|cli_rank_facts|cli_ranks|cluster_here|cluster_plan|device|drives|kill|kill_ranks|lost|lost_link|lost_train|mpirun|paper|probe|python|rank_faults|ranks|report_browser|represented|tiny|two_hosts)$$'

# The layers that start threads, without the slowest; what a device of threads computes; of training what saves and
# what ranks do. MPI's own threads are not for TSan.
threaded := base comm device io store tier
others := test_device_train test_ops_threads test_ranks_agree test_ranks_fail test_saving test_train_bits
space := $(subst ,, )
tsan: ## the tests of threaded code under ThreadSanitizer
	$(call build,build-tsan,-DHIL_SANITIZE=thread,--target \
	    $(basename $(notdir $(wildcard $(threaded:%=tests/%/test_*.c)))) $(others))
	$(ctest) build-tsan -L '^($(subst $(space),|,$(threaded)))$$' -LE mpi -E '^test_(detours|store_damage|visits)$$'
	$(ctest) build-tsan -R '^($(subst $(space),|,$(others)))$$'

fuzz: ## each fuzzer for FUZZ_SECONDS, repeated until it made FUZZ_RUNS runs in all
	@tools/deps.sh fuzz
	$(call build,build-fuzz,-DCMAKE_C_COMPILER=clang -DHIL_FUZZ=ON -DHIL_SANITIZE=address$(comma)undefined,--target fuzzers)
	@JOBS=$(JOBS) tools/fuzz.sh build-fuzz $(FUZZ_SECONDS) $(FUZZ_RUNS)

install: hilbert ## program, library, headers, pkg-config file, manual pages (PREFIX, DESTDIR)
	@cmake --install $(BUILD) --prefix $(PREFIX)

abi: hilbert ## tests/install/abi.txt anew, after a change of the public headers
	@tools/abi.sh $(BUILD)/libhilbert.so > tests/install/abi.txt

bundle: ## an archive that runs on other machines, from any folder; with CUDA where nvcc is
	@tools/deps.sh bundle
	$(call build,build-bundle,-DHIL_CUDA=ON,--target hilbert)
	@tools/bundle.sh build-bundle build-bundle

wheel: ## a wheel for pip in dist/: program, library, Python package; with CUDA where nvcc is
	@tools/deps.sh bundle
	$(call build,build-bundle,-DHIL_CUDA=ON,--target hilbert)
	@tools/wheel.sh build-bundle dist

clean: ## remove what was built
	rm -rf build build-* dist

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile
