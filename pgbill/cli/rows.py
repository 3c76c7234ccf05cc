"""Make table rows of dataclasses."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def of(items: "Iterable[DataclassInstance]") -> list[dict[str, object]]:
    """Return a row for each; times to the second, in UTC like all that we print."""
    return [
        {
            name: f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else value
            for name, value in asdict(item).items()
        }
        for item in items
    ]
