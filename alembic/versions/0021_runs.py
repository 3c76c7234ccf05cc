"""Runs that hold mail and drafts back, retries with a delay, and who has acted."""

from pathlib import Path

from alembic import op

revision, down_revision = "0021", "0016"


def upgrade() -> None:
    """Run the sibling, on psycopg itself: SQLAlchemy would read % and : in it."""
    sql = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().connection.driver_connection.execute(sql)
