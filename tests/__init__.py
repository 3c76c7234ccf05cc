"""The tests of pgbill: unit, integration (PostgreSQL), acceptance (processes)."""
