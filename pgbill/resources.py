"""Find the files that are shipped beside the code.

In a checkout `sql/`, `alembic/`, `templates/` and `examples/` are folders at the top,
where people look for them; in a wheel they lie in `pgbill/_resources/`. Nothing else
may know.
"""

from pathlib import Path

from pgbill.errors import ConfigError

_PACKAGE = Path(__file__).parent
_FOLDERS = ("sql", "alembic", "templates", "examples")


def path(*parts: str) -> Path:
    """Return the path of what is shipped, such as `path("sql", "install.sql")`."""
    return _root().joinpath(*parts)


def missing(error: FileNotFoundError) -> ConfigError | None:
    """Turn the lack of a file into our error; into none if it is not one of ours."""
    file = Path(str(error.filename))
    if not any(file.is_relative_to(path(folder)) for folder in _FOLDERS):
        return None
    return ConfigError(
        f"{file.relative_to(_root()).as_posix()}, which belongs to pgbill, is missing.",
        hint="Install pgbill again.",
    )


def _root() -> Path:
    installed = _PACKAGE / "_resources"
    return installed if installed.is_dir() else _PACKAGE.parent
