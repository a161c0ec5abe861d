# Every target sets up what it needs. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
RUN := PYTHONPATH=.:layers/postlease/python $(BIN)/python
SAM := SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 .venv-sam/bin/sam
# COVERAGE=1 measures the tests and holds them to the limit in pyproject.toml.
MEASURE = $(if $(COVERAGE),--cov --cov-report=term)

.DEFAULT_GOAL := help
.PHONY: help ops setup setup-sam setup-lambda setup-emulator artefact demo dev sam-samples test test-chosen test-inside test-whole \
	bench bench-quick setup-peers bench-doorbell bench-oracle bench-attachments bench-storage bench-retention check lint types imports template build e2e emulator test-debian \
	schema openapi test-api test-browser test-node corpus format lock chaos chaos-mutants templates check-templates preview snapshot release

help:  ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17

setup:  ## make .venv with the locked development dependencies
	@$(PYTHON) local/bootstrap.py

setup-sam:  ## make .venv-sam with AWS SAM CLI, which pins its own boto3
	@$(PYTHON) local/bootstrap.py --environment sam

setup-emulator:  ## make .venv-emulator with an emulator of AWS (wants python3.13)
	@folder=$$($(PYTHON) -m local.python313) && "$$folder/python3.13" local/bootstrap.py --environment emulator

demo: setup  ## run the main flow end to end and print what happened
	@$(RUN) -m local demo

dev: setup  ## run the whole stack until Ctrl-C (PORT, DATABASE_URL, SCHEDULES=off, SAM_LOCAL=on, TEMPLATES_DIRECTORY)
	@exec env $(RUN) -m local dev

ops: setup  ## see and mend mail over the API (ARGS, such as ARGS="--local stats"; ARGS)
	@exec env $(RUN) -m ops $(ARGS)

test: $(if $(ARGS),test-chosen,test-inside test-whole)  ## run the tests (ARGS for pytest; -j2 takes two processors)

test-chosen: setup
	@$(BIN)/python -m pytest $(ARGS)

# In two parts, so that `make -j2` has both processors busy. Only the first runs the package in
# pytest's own process, where it can be measured.
test-inside: setup
	@$(BIN)/python -m pytest $(MEASURE) --ignore tests/e2e --ignore tests/mutants

test-whole: setup
	@$(BIN)/python -m pytest tests/e2e tests/mutants

setup-peers: setup  ## make .venv-peers with the queues that the bench compares
	@$(PYTHON) local/bootstrap.py --environment peers

bench: setup-peers  ## measure all and write docs/performance.md (under 15 minutes on two quiet cores; ARGS)
	@$(RUN) -m bench $(ARGS)

bench-quick: setup  ## the same without the peers and the long cases; under 90 seconds, prints only (ARGS)
	@$(RUN) -m bench --quick $(ARGS)

bench-doorbell: setup  ## measure how soon mail leaves: by the doorbell, by a lingering sweep (ARGS)
	@$(RUN) -m bench.doorbell $(ARGS)

bench-oracle: setup  ## measure whether the time of an answer tells who has an account (ARGS)
	@$(RUN) -m bench.oracle $(ARGS)

bench-attachments: setup  ## measure the memory that a sweep takes for large attachments (ARGS)
	@$(RUN) -m bench.attachments $(ARGS)

bench-storage: setup  ## measure the room that a message takes in the database (ARGS)
	@$(RUN) -m bench.storage $(ARGS)

bench-retention: setup  ## kill retention on its way, count what it leaves, time claims beside it (ARGS)
	@$(RUN) -m bench.retention $(ARGS)

check: COVERAGE = 1
check: lint types imports test test-debian template build test-api test-browser test-node  ## all that CI runs (with -j2)
	@echo "check: all green"

chaos: setup  ## kill everything in six scenarios and count what became of the mail (ARGS)
	@$(RUN) -m tests.chaos $(ARGS)

chaos-mutants: setup  ## show that chaos turns red without the fence, the mark, the last look
	@$(RUN) -m tests.chaos --mutant all $(ARGS)

lint: setup  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup  ## mypy --strict
	@$(BIN)/mypy

imports: setup  ## the import contracts
	@PYTHONPATH=.:layers/postlease/python $(BIN)/lint-imports

template: setup setup-sam  ## sam validate --lint, and what SAM would run locally
	@$(SAM) validate --lint
	@$(SAM) validate --lint -t docs/aurora.yaml
	@$(BIN)/python -m pytest tests/sam $(ARGS)

sam-samples: setup setup-sam  ## write anew the events that SAM generates (tests/sam/generated)
	@$(RUN) -m tests.sam

build: setup setup-sam  ## sam build, for both processors (wants python3.13)
	@folder=$$($(BIN)/python -m local.python313) && PATH="$$folder:$$PATH" $(SAM) build

e2e: setup setup-sam setup-emulator  ## deploy the template on an emulator of AWS, use it, update it, remove it (ARGS)
	@exec env $(RUN) -m tests.emulator $(ARGS)

emulator: setup setup-sam setup-emulator  ## an empty account on an emulator of AWS, to follow docs/deploy.md by hand
	@exec env $(RUN) -m tests.emulator --by-hand $(ARGS)

setup-lambda: setup  ## make .venv-lambda: Python 3.13 with what the Lambda runtime brings, no more
	@folder=$$($(BIN)/python -m local.python313) && \
		"$$folder/python3.13" local/bootstrap.py --environment lambda

artefact: build setup-lambda  ## test what was built as Lambda runs it; report sizes and cold starts
	@$(BIN)/python -m pytest tests/artefact $(ARGS)
	@$(RUN) -m bench.artefact

# `check` leaves out what takes the same statements through handlers and providers: each statement is
# run by its own tests, and once more as it was recorded (tests/migration).
check: DEBIAN_LESS = --ignore tests/integration/auth --ignore tests/integration/delivery --ignore tests/integration/messages
test-debian: setup  ## the database's tests on Debian's PostgreSQL, which is older than the embedded
	@folder=$$($(BIN)/python -m local.debian_postgres) && POSTGRES_BIN=$$folder \
		$(BIN)/python -m pytest tests/integration tests/migration $(DEBIAN_LESS) $(ARGS)

test-api: setup  ## schemathesis against a running stack (ARGS="--examples 5000" for the long form)
	@$(RUN) -m tests.api $(ARGS)

test-browser: setup .local/axe/stamp  ## the pages in Chromium, which is installed if need be (SCREENSHOTS=docs)
	@$(BIN)/python -m local.chromium
	@$(BIN)/python -m pytest tests/browser $(ARGS)

test-node: setup  ## a producer in Node and a second reader of mails, with packages from npm
	@$(BIN)/python -m local.node
	@$(BIN)/python -m pytest tests/node $(ARGS)

# The stamp comes last: what stopped half way begins anew.
.local/axe/stamp: requirements/axe.txt | setup
	@rm -rf .local/axe
	@$(BIN)/python -m pip install -q --no-deps --require-hashes --target .local/axe -r $<
	@touch $@

corpus: setup  ## send files that nobody here wrote to a running stack (CORPUS=folder)
	@$(RUN) -m tests.corpus "$(CORPUS)"

snapshot: setup  ## write anew what the release that is being made says to its database
	@$(RUN) -m tests.releases

release: setup  ## look, write, commit and tag a release; VERSION=x.y.z (ARGS=--dry-run, --checked, --help)
	@$(RUN) -m local.release $(VERSION) $(ARGS)

openapi: setup  ## write the API's description anew from the routes
	@$(RUN) -m local.openapi

schema: setup  ## write sql/schema.sql anew from the migrations
	@$(RUN) -m local.schema

templates: setup  ## write styles into the elements of X.source.html.j2 (TEMPLATES=folder)
	@$(RUN) -m local.mails write $(TEMPLATES)

check-templates: setup  ## render all templates from their samples (TEMPLATES, ALLOWED_SENDERS)
	@$(RUN) -m local.mails check $(TEMPLATES)

preview: setup  ## write all mails as HTML, text and pictures, and say where (TEMPLATES=folder)
	@$(BIN)/python -m local.chromium >&2 || true
	@$(RUN) -m local.mails preview $(TEMPLATES)

format: setup  ## let ruff write the format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: setup  ## resolve all dependencies anew, for every supported Python
	@$(PYTHON) -m venv .local/lock && .local/lock/bin/python -m pip install -q uv==0.13.9
	@for name in layers/dependencies/requirements requirements/dev requirements/sam \
		requirements/lambda requirements/emulator requirements/peers; do \
		least=3.11; case $$name in */lambda|*/emulator) least=3.13;; esac; \
		.local/lock/bin/uv pip compile -q --universal --python-version $$least --generate-hashes \
			--no-emit-index-url --no-header -o $$name.txt $$name.in || exit 1; done
