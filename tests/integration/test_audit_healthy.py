"""Every audit view is empty while nothing is wrong, whatever is unfinished."""

import re
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from pgbill import audit
from tests import varied, world
from tests.shop import findings

_DOCS = Path(__file__).parents[2] / "docs" / "audit.md"


@pytest.fixture
def healthy(conn: Connection[Any]) -> world.World:
    return world.build(conn)


def test_nothing_is_found_in_an_empty_database(conn: Connection[Any]) -> None:
    assert findings(conn) == {}


def test_nothing_is_found_in_a_healthy_world(
    conn: Connection[Any], healthy: world.World
) -> None:
    """With all that is open: late usage, an uncertain message, a new account."""
    assert healthy.busy.account_id
    assert findings(conn) == {}


def test_nothing_is_found_where_all_there_is_was_sold(conn: Connection[Any]) -> None:
    """With a month that waits, one that was skipped, and one below zero."""
    varied.build(conn)

    assert findings(conn) == {}


def test_nothing_is_found_while_a_lease_is_held(
    conn: Connection[Any], healthy: world.World
) -> None:
    world.claim(conn, healthy.fresh)

    assert findings(conn) == {}


def test_the_documentation_lists_every_view(conn: Connection[Any]) -> None:
    text = _DOCS.read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)

    known = [view.name for view in audit.views(conn)]
    assert sorted(set(documented) & set(known)) == known


def test_every_view_explains_itself(conn: Connection[Any]) -> None:
    assert all(len(view.explanation) > 60 for view in audit.views(conn))
