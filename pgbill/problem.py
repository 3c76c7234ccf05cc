"""Name what is wrong in a file: all of it, by place, the first twenty in words.

Whoever gets a file back wants every mistake at once, and not a screen for each line of
a file that is wrong throughout. A place is what editors jump to: `file:line: column`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pgbill.errors import InputError

LIMIT = 20
_SHOWN_CHARACTERS = 40


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something wrong at a place of a file."""

    line: int
    column: str
    reason: str


@dataclass(slots=True)
class Problems:
    """The problems of a file so far: a count, and the first of them."""

    source: str
    count: int = 0
    first: list[Problem] = field(default_factory=list[Problem])

    def add(self, line: int, column: str, reason: str) -> None:
        """Add one that was found while reading, so after those of earlier lines."""
        self.count += 1
        if len(self.first) < LIMIT:
            self.first.append(Problem(line, column, reason))

    def merge(self, problems: Iterable[Problem], *, count: int) -> None:
        """Add the first of those that were found later, and how many there are."""
        self.count += count
        self.first = sorted([*self.first, *problems])[:LIMIT]

    def refuse(self) -> None:
        """Refuse the file if anything is wrong with it.

        Raises:
            BadInputError: With all that was found.
        """
        if self.count:
            lines = [self._located(problem) for problem in self.first]
            raise BadInputError(self.source, lines, count=self.count)

    def _located(self, problem: Problem) -> str:
        column = f"{problem.column}: " if problem.column else ""
        return f"{self.source}:{problem.line}: {column}{problem.reason}"


class BadInputError(InputError):
    """A file holds something wrong, so nothing of it was taken over."""

    def __init__(self, source: str, lines: list[str], *, count: int) -> None:
        """Keep what was found.

        Args:
            source: The file, as the user named it.
            lines: The first problems, each with its place.
            count: How many there are in all.
        """
        more = f"\n… and {count - len(lines)} more" if count > len(lines) else ""
        super().__init__(
            f"{source} holds something wrong, so nothing was changed:\n"
            + "\n".join(lines)
            + more
        )
        self.source = source
        self.lines = lines
        self.count = count


def shown(value: object) -> str:
    """Quote a value from a file, cut to what a person wants to read of it."""
    text = repr(value)
    if len(text) > _SHOWN_CHARACTERS:
        return f"{text[:_SHOWN_CHARACTERS]}…"
    return text
