"""Know the countries that an address and a tax rate may name.

The codes are the 249 that ISO 3166-1 assigns officially (alpha-2). They are the
same in the file `iso3166.tab` of the tz database, which is public domain; a test
compares the two wherever a machine has that file. Two more are in use, and are taken as
well: XI, which the United Kingdom and the EU give to Northern Ireland for VAT on goods,
and XK, a code that ISO leaves to its users and that most of them use for Kosovo. EL is
the prefix of Greek VAT ids, and no country: that is GR.
"""

import re

from pgbill.problem import shown

_FORM = re.compile("[A-Z]{2}")
_CODES = """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ
    BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR
    CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR
    GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU
    ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ
    LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ
    MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF
    PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI
    SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR
    TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW
"""

ASSIGNED = frozenset(_CODES.split())
"""ISO 3166-1, officially assigned."""

IN_USE = frozenset({"XI", "XK"})
"""Not assigned, but taken."""


def check(code: str) -> str:
    """Return a country's code as it is.

    Raises:
        ValueError: It is none; the message says so.
    """
    if not _FORM.fullmatch(code):
        raise ValueError(f"{shown(code)} is not a country code such as DE")
    if code not in ASSIGNED | IN_USE:
        raise ValueError(f"{code} is not a country of ISO 3166")
    return code
