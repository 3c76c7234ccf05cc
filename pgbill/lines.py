r"""Find on which line of a TOML file each value stands, since tomllib does not tell.

A reader of places, not of values: it goes through a text that tomllib has accepted, and
notes where keys, tables and members of arrays begin, each under the path by which
everything that is wrong is named, such as `prices.fee.versions[2].amount`. What is not
there, such as a key that is missing, stands where its table does.
"""

import re
import tomllib
from dataclasses import dataclass, field

_STRING = (
    r'"""(?:\\.|[^\\])*?"""(?!")'
    r"|'''.*?'''(?!')"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'"
)
_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_KEY = re.compile(rf"[ \t]*({_STRING}|[\w-]+)[ \t]*(\.?)", re.DOTALL)
_SCALAR = re.compile(rf"{_STRING}|[^,\]}}#\n]+", re.DOTALL)


def find(text: str) -> dict[str, int]:
    """Return the line of each path in a valid TOML text."""
    reader = _Reader(text)
    reader.read()
    return reader.lines


def line_of(lines: dict[str, int], place: str) -> int:
    """Return the line of a place, or of what it would stand in; of the file, 1."""
    while place and place not in lines:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    return lines.get(place, 1)


@dataclass(slots=True)
class _Reader:
    text: str
    lines: dict[str, int] = field(default_factory=dict[str, int])
    _at: int = 0
    _line: int = 1
    _counts: dict[str, int] = field(default_factory=dict[str, int])

    def read(self) -> None:
        table = ""
        while self._goes_on():
            if self._take("[["):
                name = self._key("")
                self._counts[name] = self._counts.get(name, 0) + 1
                table = self._note(f"{name}[{self._counts[name]}]")
                self._take("]]")
            elif self._take("["):
                table = self._note(self._key(""))
                self._take("]")
            else:
                self._member(table)

    def _goes_on(self) -> bool:
        match = _SPACE.match(self.text, self._at)
        self._move(match.end() if match else self._at)
        return self._at < len(self.text)

    def _take(self, mark: str) -> bool:
        if not self.text.startswith(mark, self._at):
            return False
        self._move(self._at + len(mark))
        return True

    def _move(self, to: int) -> None:
        self._line += self.text.count("\n", self._at, to)
        self._at = to

    def _note(self, path: str) -> str:
        # A table that is written in parts stands where the first is.
        self.lines.setdefault(path, self._line)
        return path

    def _key(self, table: str) -> str:
        """Read a key and note it; inside an array of tables it is of the last one."""
        path, dot = table, "."
        while dot and (match := _KEY.match(self.text, self._at)):
            path = f"{path}.{_name(match[1])}" if path else _name(match[1])
            dot = match[2]
            if dot and path in self._counts:
                path = f"{path}[{self._counts[path]}]"
            self._move(match.end())
            if dot:
                self._note(path)
        return path

    def _member(self, table: str) -> None:
        path = self._note(self._key(table))
        self._take("=")
        self._value(path)

    def _value(self, path: str) -> None:
        self._goes_on()
        if self._take("["):
            number = 0
            while self._goes_on() and not self._take("]"):
                number += 1
                self._value(self._note(f"{path}[{number}]"))
                self._goes_on()
                self._take(",")
        elif self._take("{"):
            while self._goes_on() and not self._take("}"):
                self._member(path)
                self._goes_on()
                self._take(",")
        elif match := _SCALAR.match(self.text, self._at):
            self._move(match.end())


def _name(written: str) -> str:
    if written[0] in "\"'":
        return str(tomllib.loads(f"name = {written}")["name"])
    return written
