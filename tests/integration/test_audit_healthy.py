"""Every audit view is empty while nothing is wrong, whatever is unfinished."""

from typing import Any

import pytest
from psycopg import Connection

from tests import world
from tests.shop import findings


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


def test_nothing_is_found_while_a_lease_is_held(
    conn: Connection[Any], healthy: world.World
) -> None:
    world.claim(conn, healthy.fresh)

    assert findings(conn) == {}
