# The commands a person needs. `make` alone lists them.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
# pytest can't collect two files of one name together, and some files of tests/hosts have names of others.
OFF_HOSTS := $(PYTEST) --ignore tests/hosts
# What begins first and what shares hosts is said in tests/hosts/conftest.py.
# Three at once, as below for the unit tests: one waits (for a host, a disk, a child), and then the other two
# have both processors.
ON_HOSTS := $(PYTEST) -q -n 3 --dist loadfile --no-loadscope-reorder tests/hosts
PATH := $(CURDIR)/.venv/bin:$(PATH)
export PATH
# pytest keeps its form of each test on the disk, half of what a worker needs to begin. Some images forbid that.
unexport PYTHONDONTWRITEBYTECODE
# Here hosts are promised: a machine that can't make them is an error, not a skip.
export PROVISION_REQUIRE_HOSTS := 1

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: ## Install what the rest needs (apt as root or through sudo; Python packages into .venv)
	@scripts/setup

demo: setup ## Two bare local hosts, provisioned and proven; prints where the report is
	@$(PYTHON) scripts/demo.py up

demo-down: ## Remove the demo's hosts
	@$(PYTHON) scripts/demo.py down

test: setup lint unit hosts ## Everything that must pass (under 35 minutes on 2 cores)

lint: setup ## ruff, mypy strict, ansible-lint production and strict; whether every test can be imported
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint-ansible lint-ruff lint-mypy lint-tests

lint-ruff:
	ruff check .
	ruff format --check .

lint-mypy:
	mypy

lint-ansible:
	ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.venv/collections ansible-lint --offline --strict

lint-tests:
	@said=$$($(OFF_HOSTS) --collect-only -qq 2>&1) || { echo "$$said"; exit 1; }

unit: setup ## Tests that need no host
	$(OFF_HOSTS) -q -n 3 --durations=30 -m 'not hosts and not slow'

hosts: setup ## Tests on local hosts over SSH, Molecule and a virtual machine among them
	@scripts/setup --machines
	$(ON_HOSTS) --durations=30 -m 'hosts and not slow'

test-all: setup lint unit ## All of `make test` and the slow ones (DKMS build, all damage, all scenarios, every TensorFlow patch, a browser, drivers and kernels on virtual machines)
	@scripts/setup --browser --machines
	$(OFF_HOSTS) -q -m 'slow and not hosts'
	$(ON_HOSTS) -m 'hosts and not hours'

faults: setup ## Break runs at random moments, cure each by one run, prove it (SEEDS="1 2" COUNT=20 MACHINE=vm)
	$(PYTHON) scripts/faults.py $(addprefix --seed ,$(SEEDS)) --count $(or $(COUNT),20) --machine $(or $(MACHINE),container)

bare: setup ## Fresh installs as virtual machines, driven to the driver's refusal of a card without silicon (an hour each)
	@scripts/setup --machines
	$(PYTEST) -q -m hours tests/hosts

damage: setup ## Damage everything the stack consists of, once; each is seen, planned, repaired
	$(PYTEST) -q -m hosts tests/hosts/test_damage.py

mutants: setup ## Turn every check and every preflight rule red by what it guards
	$(PYTHON) scripts/mutants.py

bench: setup ## Measure speed as ratios against other ways; writes docs/benchmark.md
	$(PYTHON) scripts/benchmark.py

sanity: setup ## `ansible-test sanity` on the collection's tarball (part of `make test-all`)
	$(PYTHON) scripts/sanity.py

docs: setup ## The documentation as a site in build/docs; fails on a link that leads nowhere
	UV_PROJECT_ENVIRONMENT=$(CURDIR)/.venv-docs uv sync --quiet --frozen --no-default-groups --group docs --python $(PYTHON)
	.venv-docs/bin/mkdocs build --strict
	@echo "build/docs/index.html"

.PHONY: help setup demo demo-down test lint lint-ruff lint-mypy lint-ansible lint-tests unit hosts test-all faults bare damage mutants bench sanity docs
