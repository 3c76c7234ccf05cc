"""Make the files of Northlight Hosting, an invented company.

2,000 accounts in twelve countries, three to five prices each, and 100,000 usage records
of October 2026; always the same, since the seed is fixed. Some accounts are very large.
Names are put together from lists, addresses lie in domains that cannot exist.

    python examples/make_company.py FOLDER
"""

import csv
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

SEED = 20261001
ACCOUNTS = 2_000
USAGE_RECORDS = 100_000
LARGE_ACCOUNTS = 10
LARGE_ACCOUNT_RECORDS = 3_000

MONTH = date(2026, 10, 1)
MONTH_END = date(2026, 11, 1)

Row = dict[str, object]


@dataclass(frozen=True)
class Country:
    """Where accounts are, and what is the rule there."""

    code: str
    weight: int
    seller: str
    currency: str
    languages: tuple[str, ...]
    zones: tuple[str, ...]
    cities: tuple[tuple[str, str, str], ...]
    streets: tuple[str, ...]
    forms: tuple[str, ...]
    vat_id: str


# Cities: postal code, name, region. In VAT ids # is a digit, @ a letter.
COUNTRIES = (
    Country(
        "DE",
        700,
        "northlight-de",
        "EUR",
        ("de",),
        ("Europe/Berlin",),
        (("20095", "Hamburg", ""), ("80331", "München", ""), ("04109", "Leipzig", "")),
        ("Hafenstraße", "Am Wall", "Königsallee", "Schloßgasse"),
        ("GmbH", "AG", "GmbH & Co. KG", "e. K."),
        "DE#########",
    ),
    Country(
        "FR",
        250,
        "northlight-de",
        "EUR",
        ("fr",),
        ("Europe/Paris",),
        (("69002", "Lyon", ""), ("44000", "Nantes", ""), ("75011", "Paris", "")),
        ("rue de l'Église", "quai des Tanneurs", "avenue des Érables"),
        ("SARL", "SAS", "SA"),
        "FR###########",
    ),
    Country(
        "JP",
        200,
        "northlight-jp",
        "JPY",
        ("ja", "ja", "en"),
        ("Asia/Tokyo",),
        (("150-0002", "渋谷区", "東京都"), ("530-0001", "大阪市北区", "大阪府")),
        ("渋谷1丁目", "梅田2丁目", "本町3丁目"),
        ("株式会社", "合同会社"),
        "",
    ),
    Country(
        "CH",
        150,
        "northlight-de",
        "CHF",
        ("de-CH", "fr-CH", "de-CH"),
        ("Europe/Zurich",),
        (("8001", "Zürich", ""), ("1204", "Genève", ""), ("3011", "Bern", "")),
        ("Bahnhofstrasse", "rue du Lac", "Spitalgasse"),
        ("AG", "GmbH", "SA"),
        "CHE-###.###.### MWST",
    ),
    Country(
        "GB",
        150,
        "northlight-de",
        "GBP",
        ("en",),
        ("Europe/London",),
        (("EC1A 1BB", "London", ""), ("EH1 1BB", "Edinburgh", "")),
        ("Tanner's Row", "Mill Lane", "St. Mary's Walk"),
        ("Ltd", "LLP", "plc"),
        "GB#########",
    ),
    Country(
        "US",
        130,
        "northlight-jp",
        "USD",
        ("en",),
        (
            "America/New_York",
            "America/Chicago",
            "America/Denver",
            "America/Los_Angeles",
        ),
        (
            ("10013", "New York", "NY"),
            ("60607", "Chicago", "IL"),
            ("80202", "Denver", "CO"),
            ("94103", "San Francisco", "CA"),
        ),
        ("Main Street", "Second Avenue", "Oak Boulevard, Suite 5"),
        ("Inc.", "LLC"),
        "",
    ),
    Country(
        "AT",
        120,
        "northlight-de",
        "EUR",
        ("de",),
        ("Europe/Vienna",),
        (("1010", "Wien", ""), ("8010", "Graz", "")),
        ("Ringstraße", "Grabengasse"),
        ("GmbH", "OG"),
        "ATU########",
    ),
    Country(
        "NL",
        90,
        "northlight-de",
        "EUR",
        ("en",),
        ("Europe/Amsterdam",),
        (("1012 AB", "Amsterdam", ""), ("3011 AA", "Rotterdam", "")),
        ("Keizersgracht", "'t Zand"),
        ("B.V.", "N.V."),
        "NL#########B##",
    ),
    Country(
        "ES",
        80,
        "northlight-de",
        "EUR",
        ("en",),
        ("Europe/Madrid", "Atlantic/Canary"),
        (("28013", "Madrid", ""), ("35003", "Las Palmas", "")),
        ("calle del Olmo", "paseo de la Ñ"),
        ("S.L.", "S.A."),
        "ES@#######@",
    ),
    Country(
        "IT",
        60,
        "northlight-de",
        "EUR",
        ("en",),
        ("Europe/Rome",),
        (("20121", "Milano", "MI"), ("50122", "Firenze", "FI")),
        ("via dell'Orso", "piazza del Duomo"),
        ("S.r.l.", "S.p.A."),
        "IT###########",
    ),
    Country(
        "KW",
        40,
        "northlight-de",
        "KWD",
        ("en",),
        ("Asia/Kuwait",),
        (("13001", "Kuwait City", ""),),
        ("Gulf Road", "Block 4, Street 12"),
        ("W.L.L.",),
        "",
    ),
    Country(
        "AU",
        30,
        "northlight-jp",
        "USD",
        ("en",),
        ("Australia/Sydney", "Australia/Adelaide"),
        (("2000", "Sydney", "NSW"), ("5000", "Adelaide", "SA")),
        ("George Street", "King William Street"),
        ("Pty Ltd",),
        "",
    ),
)

FIRST_WORDS = (
    "Alder", "Birke", "Cedar", "Dünen", "Étoile", "Falcon", "Grün", "Harbour",
    "Isar", "Juniper", "Kestrel", "Lumière", "Møller", "Nordlicht", "O'Brien", "Pebble",
    "Quarz", "Rivière", "Saffron", "Tundra", "Ümit", "Vega", "Willow", "Zephyr",
)  # fmt: skip
SECOND_WORDS = (
    "Analytics", "Bakery & Sons", "Cartography", "Dental", "Elektronik",
    "Film, Ton, Bild", "Gardens", "Handel", "Instruments", "Journal", "Kino",
    "Logistics", "Mechanik", "Nautical", "Optik", "Paper", "Research",
    "Software", 'Studio "Nord"', "Textil",
)  # fmt: skip
GIVEN_NAMES = ("Aiko", "Björn", "Chloé", "Dilara", "Emil", "Fatima", "Noël", "Zoë")
FAMILY_NAMES = (
    "Beispiel",
    "Exemple",
    "Muster",
    "O'Example",
    "Sample",
    "Specimen",
    "例",
)

PLANS = ("hosting-s", "hosting-m", "hosting-l")
METERS = ("transfer", "compute", "storage")

ACCOUNT_COLUMNS = (
    "key", "seller", "legal_name", "street", "street_2", "postal_code", "city",
    "region", "country", "tax_status", "vat_id", "customer_number", "language",
    "currency", "zone", "first_period_on", "anchor_on", "net_days", "end_of_month",
    "discount_percent", "discount_days", "payment_means", "buyer_reference",
    "email", "delivery_channel",
)  # fmt: skip
SUBSCRIPTION_COLUMNS = (
    "subscription", "account", "price", "quantity", "starts_on", "ends_on",
    "purchase_order", "contract_number", "cost_centre",
)  # fmt: skip
USAGE_COLUMNS = ("key", "account", "meter", "quantity", "occurred_at")


@dataclass(frozen=True)
class Account:
    """An account, with what its subscriptions and its usage depend on."""

    row: Row
    zone: str
    first_period_on: date
    meters: tuple[str, ...]
    is_large: bool


def make(folder: Path) -> None:
    """Write accounts.csv, subscriptions.csv and usage.csv into a folder."""
    draw = random.Random(SEED)
    accounts = [_account(draw, number) for number in range(1, ACCOUNTS + 1)]
    _write(
        folder / "accounts.csv", ACCOUNT_COLUMNS, (account.row for account in accounts)
    )
    subscriptions = (
        row for account in accounts for row in _subscriptions(draw, account)
    )
    _write(folder / "subscriptions.csv", SUBSCRIPTION_COLUMNS, subscriptions)
    _write(folder / "usage.csv", USAGE_COLUMNS, _usage(draw, accounts))


def _write(file: Path, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _account(draw: random.Random, number: int) -> Account:
    country = draw.choices(COUNTRIES, [each.weight for each in COUNTRIES])[0]
    is_large = number <= LARGE_ACCOUNTS
    is_business = is_large or draw.random() < 0.8
    postal_code, city, region = draw.choice(country.cities)
    zone = draw.choice(country.zones)
    first_period_on, anchor_on = (MONTH, MONTH) if is_large else _first_day(draw)
    discount = draw.random() < 0.05 and is_business
    row: Row = {
        "key": f"C{number:05d}",
        "seller": country.seller,
        "legal_name": _company(draw, country) if is_business else _person(draw),
        "street": f"{draw.choice(country.streets)} {draw.randint(1, 120)}",
        "street_2": "c/o Buchhaltung" if draw.random() < 0.03 else "",
        "postal_code": postal_code,
        "city": city,
        "region": region,
        "country": country.code,
        "tax_status": "business" if is_business else "consumer",
        "vat_id": _vat_id(draw, country.vat_id) if is_business else "",
        "customer_number": f"{100_000 + number}",
        "language": draw.choice(country.languages),
        "currency": country.currency,
        "zone": zone,
        "first_period_on": first_period_on,
        "anchor_on": anchor_on,
        "net_days": draw.choice((14, 30, 30, 60)),
        "end_of_month": "true" if draw.random() < 0.1 else "false",
        "discount_percent": "2" if discount else "",
        "discount_days": "10" if discount else "",
        "payment_means": "58" if country.currency == "EUR" else "30",
        "buyer_reference": f"REF-{number:05d}" if draw.random() < 0.2 else "",
        "email": _email(draw, number),
        "delivery_channel": "email",
    }
    wanted = METERS if is_large else _some(draw, METERS, 0.5)
    return Account(row, zone, first_period_on, wanted, is_large)


def _first_day(draw: random.Random) -> tuple[date, date]:
    """Draw the first day and the anchor; three periods at most are due in October."""
    kind = draw.random()
    if kind < 0.85:
        return MONTH, MONTH
    if kind < 0.90:
        return date(2026, 9, 1), date(2026, 9, 1)
    if kind < 0.95:
        begins_on = date(2026, 10, draw.randint(2, 28))
        return begins_on, begins_on
    # Anchored to the end of months; the first period is a short one.
    return date(2026, 10, draw.randint(5, 25)), date(2026, 1, 31)


def _company(draw: random.Random, country: Country) -> str:
    name = f"{draw.choice(FIRST_WORDS)} {draw.choice(SECOND_WORDS)}"
    form = draw.choice(country.forms)
    return f"{form}{name}" if country.code == "JP" else f"{name} {form}"


def _person(draw: random.Random) -> str:
    return f"{draw.choice(GIVEN_NAMES)} {draw.choice(FAMILY_NAMES)}"


def _vat_id(draw: random.Random, pattern: str) -> str:
    drawn = {"#": "0123456789", "@": "ABCDEFGHJNPQRSUVW"}
    vat_id = "".join(
        draw.choice(drawn[each]) if each in drawn else each for each in pattern
    )
    # No German id begins with 0, no Dutch one ends with B00. Replaced, not drawn again:
    # all that is drawn later stays as it is.
    return vat_id.replace("DE0", "DE1").replace("B00", "B01")


def _email(draw: random.Random, number: int) -> str:
    domain = f"c{number:05d}.{draw.choice(('example.com', 'example.test'))}"
    addresses = [f"invoices@{domain}"]
    if draw.random() < 0.1:
        addresses.append(f"accounting+northlight@{domain}")
    return ";".join(addresses)


def _some(
    draw: random.Random, choices: tuple[str, ...], chance: float
) -> tuple[str, ...]:
    return tuple(each for each in choices if draw.random() < chance)


def _subscriptions(draw: random.Random, account: Account) -> Iterator[Row]:
    """Subscribe to a plan with its extras and, as another contract, to the meters."""
    key, currency = account.row["key"], str(account.row["currency"]).lower()
    plan = "hosting-l" if account.is_large else draw.choices(PLANS, (6, 3, 1))[0]
    extras = draw.sample(
        ("backup", "domain", "support"),
        draw.randint(max(1, 2 - len(account.meters)), 2),
    )
    order = f"PO-{draw.randint(10_000, 99_999)}" if draw.random() < 0.2 else ""
    starts_on, ends_on = _active(draw, account)
    common: Row = {
        "account": key,
        "starts_on": starts_on,
        "ends_on": ends_on or "",
        "purchase_order": order,
        "cost_centre": f"{draw.randint(100, 999)}" if draw.random() < 0.1 else "",
    }
    for product in (plan, *extras):
        quantity = draw.randint(1, 12) if product == "domain" else 1
        yield {
            **common,
            "subscription": f"{key}-1",
            "price": f"{product}-{currency}",
            "quantity": quantity,
            "contract_number": f"V{key}-1",
        }
    for meter in account.meters:
        # Runs on, so that all usage is billed.
        yield {
            **common,
            "subscription": f"{key}-2",
            "price": f"{meter}-{currency}",
            "quantity": 1,
            "starts_on": account.first_period_on,
            "ends_on": "",
            "contract_number": f"V{key}-2",
        }


def _active(draw: random.Random, account: Account) -> tuple[date, date | None]:
    """Draw when the plan begins and ends; most run through."""
    kind = draw.random()
    if account.is_large or kind < 0.9:
        return account.first_period_on, None
    if kind < 0.95:
        return account.first_period_on + timedelta(days=draw.randint(1, 5)), None
    return account.first_period_on, date(2026, 10, 29)


def _usage(draw: random.Random, accounts: list[Account]) -> Iterator[Row]:
    metered = [account for account in accounts if account.meters]
    others = [account for account in metered if not account.is_large]
    drawn = [
        account
        for account in metered
        if account.is_large
        for _ in range(LARGE_ACCOUNT_RECORDS)
    ]
    drawn += draw.choices(others, k=USAGE_RECORDS - len(drawn))
    draw.shuffle(drawn)
    for number, account in enumerate(drawn, start=1):
        meter = draw.choice(account.meters)
        yield {
            "key": f"U{number:07d}",
            "account": account.row["key"],
            "meter": meter,
            "quantity": _quantity(draw, meter),
            "occurred_at": _time(draw, account).isoformat(),
        }


def _quantity(draw: random.Random, meter: str) -> str:
    if meter == "compute":
        return f"{draw.randint(1, 240) / 4:.2f}"
    return f"{draw.randint(0, 600)}.{draw.randint(1, 999):03d}"


def _time(draw: random.Random, account: Account) -> datetime:
    """Draw a second of October, in the account's zone, not before its first day."""
    begins_on = max(account.first_period_on, MONTH)
    seconds = (MONTH_END - begins_on).days * 86_400
    zone = ZoneInfo(account.zone)
    midnight = datetime(begins_on.year, begins_on.month, begins_on.day, tzinfo=zone)
    return midnight + timedelta(seconds=draw.randrange(seconds))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python make_company.py FOLDER")
    make(Path(sys.argv[1]))
