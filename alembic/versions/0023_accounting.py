"""Payments, old invoices, what was exported, and months that are closed."""

from pathlib import Path

from alembic import op

revision, down_revision = "0023", "0022"


def upgrade() -> None:
    """Run the sibling, on psycopg itself: SQLAlchemy would read % and : in it."""
    sql = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().connection.driver_connection.execute(sql)
