"""Find the files that are shipped beside the code.

In a checkout `sql/`, `alembic/`, `templates/` and `examples/` are folders at the top,
where people look for them; in a wheel they lie in `pgbill/_resources/`. Nothing else
may know.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def path(*parts: str) -> Path:
    """Return the path of what is shipped, such as `path("sql", "install.sql")`."""
    installed = _PACKAGE / "_resources"
    root = installed if installed.is_dir() else _PACKAGE.parent
    return root.joinpath(*parts)
