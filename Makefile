# All that a fresh machine needs is Python with pip and venv; each target sets up the rest.

.DELETE_ON_ERROR:
.PHONY: help demo test lint format bench bench-memory bench-rating bench-tax bench-numbers clean moved

VENV := .venv
IN_VENV := $(VENV)/bin/python -m

help:
	@echo "make demo     set everything up, then bill the example company"
	@echo "make test     set everything up, then run all checks and tests"
	@echo "make lint     the checks alone"
	@echo "make format   lay out the Python and SQL files"
	@echo "make bench    measure, against plain bulk SQL on the same server"
	@echo "make bench-memory  measure memory, with a million accounts and usage records"
	@echo "make bench-tax  measure a run that asks a slow tax service"
	@echo "make bench-numbers  measure runs with numbers, against runs without"
	@echo "make bench-rating  measure all price models, against so much for each unit"
	@echo "make clean    remove the environment; the data of pgbill stays"

demo: $(VENV)/demo
	@$(IN_VENV) pgbill demo

# The last thing printed is pytest's summary.
test: lint
	@$(IN_VENV) pytest -n 3 $(PYTEST)

lint: $(VENV)/dev
	@$(IN_VENV) ruff check --quiet .
	@$(IN_VENV) ruff format --quiet --check .
	@$(IN_VENV) basedpyright
	@$(IN_VENV) sqlfluff lint --disable-progress-bar sql alembic/versions
	@$(VENV)/bin/lint-imports --no-logo

format: $(VENV)/dev
	@$(IN_VENV) ruff check --fix --quiet .
	@$(IN_VENV) ruff format --quiet .
	@$(IN_VENV) sqlfluff fix --disable-progress-bar sql alembic/versions

bench: $(VENV)/dev
	@$(IN_VENV) bench

bench-memory: $(VENV)/dev
	@$(IN_VENV) bench.memory

bench-tax: $(VENV)/dev
	@$(IN_VENV) bench.tax

bench-numbers: $(VENV)/dev
	@$(IN_VENV) bench.numbers

bench-rating: $(VENV)/dev
	@$(IN_VENV) bench.rating

clean:
	rm -rf $(VENV)

# An environment does not survive a move, nor the end of its Python: then make it anew.
READ := print(open("$(VENV)/here").read().strip())
ifneq ($(shell $(VENV)/bin/python -c '$(READ)' 2>/dev/null),$(CURDIR))
$(VENV)/here: moved
endif

$(VENV)/here:
	@for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    if command -v $$python >/dev/null 2>&1 && $$python -c \
	        'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' \
	        2>/dev/null; \
	    then \
	        rm -rf $(VENV); $$python -m venv $(VENV) || exit 1; \
	        echo '$(CURDIR)' > $@; exit 0; \
	    fi; \
	done; \
	echo "pgbill needs Python 3.11 or newer, with pip and venv: none was found." \
	    "Install it, or name it: make PYTHON=/path/to/python3" >&2; \
	exit 1

# The constraints pin the build tools as well, so there is no isolated build.
$(VENV)/demo $(VENV)/dev: $(VENV)/here pyproject.toml constraints.txt
	@echo "Setting up $(@F) in $(VENV) …" >&2
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(IN_VENV) pip install --quiet \
	    --constraint constraints.txt hatchling editables
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(IN_VENV) pip install --quiet \
	    --constraint constraints.txt --no-build-isolation --editable '.[$(@F)]'
	@touch $@
