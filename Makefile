# Every target sets up what it needs. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
RUN := PYTHONPATH=.:layers/postlease/python $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help setup demo dev test check lint types imports template build-sam test-debian coverage lock schema

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup:  ## make .venv with the locked development dependencies
	@$(PYTHON) local/bootstrap.py

demo: setup  ## run the main task end to end and print what happened
	@$(RUN) -m local demo

dev: setup  ## run the whole stack until Ctrl-C (PORT, DATABASE_URL, SCHEDULES=off)
	@$(RUN) -m local dev

test: setup  ## run the tests
	@$(BIN)/python -m pytest $(ARGS)

schema: setup  ## write sql/schema.sql anew from the migrations
	@$(RUN) -m local.schema
