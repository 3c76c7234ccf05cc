"""Read the days that options name."""

from datetime import date, datetime

import typer


def day(text: str) -> date:
    """Take a day such as 2026-10-31.

    Raises:
        BadParameter: It is none.
    """
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 (only a day)
    except ValueError:
        message = f"{text!r} is not a date such as 2026-10-31."
        raise typer.BadParameter(message) from None
