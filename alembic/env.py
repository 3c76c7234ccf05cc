"""Run the migrations in the transaction that `pgbill migrate` has begun.

There is no alembic.ini: the roles, the locks and the replaceable SQL around the migrations
are part of a migration of pgbill, so `pgbill migrate` is the only way to run them.
"""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table_schema="pgbill")
with context.begin_transaction():
    context.run_migrations()
