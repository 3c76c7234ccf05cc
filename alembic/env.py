"""Run the migrations in the transaction that `pgbill migrate` has begun.

There is no alembic.ini: roles, locks and the replaceable SQL belong to a migration of
pgbill as well, so `pgbill migrate` is the only way to run one.
"""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table_schema="pgbill")
with context.begin_transaction():
    context.run_migrations()
