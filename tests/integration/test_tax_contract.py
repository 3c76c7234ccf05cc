"""What pgbill asks and believes is what the OpenAPI file of the contract says."""

from pathlib import Path
from typing import Any, cast, get_args

import pytest
import yaml
from psycopg import Connection

from pgbill import taxtrial
from pgbill.taxanswer import Category
from pgbill.taxserver import TaxServer
from tests import builders
from tests.shifts import job, run_shift
from tests.shop import Shop, findings
from tests.taxes import asks

pytestmark = pytest.mark.one_server

CONTRACT = Path(__file__).parents[2] / "docs" / "tax-service.openapi.yaml"

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
    "null": type(None),
}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    contract = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))
    return contract["components"]["schemas"]


def _differences(
    value: Any,  # noqa: ANN401
    schema: dict[str, Any],
    schemas: dict[str, Any],
    where: str = "",
) -> list[str]:
    """Return where a value is not what its schema says, as far as we use schemas."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        tried = [_differences(value, each, schemas, where) for each in schema["anyOf"]]
        return [] if [] in tried else tried[0]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(isinstance(value, _KINDS[kind]) for kind in kinds):
        return [f"{where}: {value!r} is not of {kinds}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where}: {value!r} is not one of {schema['enum']}"]
    if isinstance(value, dict):
        return _of_members(cast("dict[str, Any]", value), schema, schemas, where)
    if isinstance(value, list):
        found: list[str] = []
        for each in cast("list[Any]", value):
            found += _differences(each, schema["items"], schemas, f"{where}[]")
        return found
    return []


def _of_members(
    members: dict[str, Any],
    schema: dict[str, Any],
    schemas: dict[str, Any],
    where: str,
) -> list[str]:
    known = schema["properties"]
    found = [f"{where}: no {each}" for each in {*schema["required"]} - {*members}]
    for name, member in members.items():
        if name in known:
            found += _differences(member, known[name], schemas, f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            found.append(f"{where}: {name} is unknown")
    return found


def test_categories_are_those_that_are_believed(schemas: dict[str, Any]) -> None:
    line = schemas["Answer"]["properties"]["lines"]["items"]["properties"]

    assert tuple(line["category"]["enum"]) == get_args(Category)


@pytest.mark.parametrize("is_included", [False, True])
def test_questions_and_answers_are_as_the_contract_says(
    dsn: str, admin: Connection[Any], schemas: dict[str, Any], is_included: bool
) -> None:
    shop = Shop.open(admin)
    fee = builders.price(admin, shop.seller_id, tax_included=is_included)
    account = builders.account(admin, shop.seller_id)
    builders.subscription(admin, account, fee)
    with TaxServer() as service:
        tally = run_shift(job(dsn, tax=asks(service)))

    assert tally.invoiced == 1
    assert findings(admin) == {}
    ((_, question),) = service.questions
    assert _differences(question, schemas["Question"], schemas) == []
    answer = taxtrial.usual(question, rate="19").body
    assert _differences(answer, schemas["Answer"], schemas) == []
