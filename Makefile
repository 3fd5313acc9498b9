# make demo and make test are the two to know; both set up what they need first.
.PHONY: help setup demo test lint bench docs clean
.NOTPARALLEL:
# sshd and ip live where an ordinary user's PATH does not look.
export PATH := $(PATH):/usr/sbin:/sbin
PYTHON_OF_PROJECT := .venv/bin/python

help:
	@echo 'make demo    benchmark a throwaway Ceph cluster on this machine and draw its response curves'
	@echo 'make test    all checks and tests; nothing is skipped'
	@echo 'make setup   only install what is needed (.venv, and system packages with apt)'
	@echo 'make lint    only the static checks'
	@echo 'make bench   what the program itself costs: time to the first point, overhead, overlap; start spread over hosts'
	@echo 'make docs    write docs/plan.md from the option models'
	@echo 'make clean   remove .venv, caches, and what make demo wrote'

setup:
	@make/setup.sh

demo: setup
	@make/demo.sh

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

test: lint
	$(PYTHON_OF_PROJECT) -m pytest </dev/null

bench: setup
	$(PYTHON_OF_PROJECT) bench/run_overhead.py
	$(PYTHON_OF_PROJECT) bench/run_start_spread.py

docs: setup
	$(PYTHON_OF_PROJECT) -m orchestrator.plan_reference > docs/plan.md.new
	mv docs/plan.md.new docs/plan.md

clean:
	rm -rf .venv build dist ./*.egg-info demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
