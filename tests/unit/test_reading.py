"""A file is read to its end, and whatever is wrong with it is told by line."""

from pathlib import Path

import pytest

from pgbill import column, reading
from pgbill.column import Column
from pgbill.errors import InputError, PgbillError, UsageError
from pgbill.problem import Problems
from pgbill.reading import Format, Row

COLUMNS = (
    Column("key", column.key, is_required=True),
    Column("quantity", column.decimal, is_required=True),
    Column("note", column.text),
)


def read(
    folder: Path, content: bytes | str, format_: Format = "csv"
) -> tuple[list[tuple[int, Row | None]], list[str]]:
    file = folder / f"file.{format_}"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    problems = Problems(file.name)
    with reading.opened(str(file)) as source:
        records = list(reading.records(source, COLUMNS, problems))
    return records, [f"{it.line}: {it.column}: {it.reason}" for it in problems.first]


def stops(folder: Path, content: bytes | str, format_: Format = "csv") -> str:
    with pytest.raises(InputError) as raised:
        read(folder, content, format_)
    return str(raised.value).replace(f"{folder}/", "")


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_is_read_with_and_without_bom_and_carriage_returns(
    tmp_path: Path, bom: str, end: str
) -> None:
    content = bom + end.join(["quantity,key", "1.5,a", ' 2 ," b, c"', ""])

    records, problems = read(tmp_path, content)

    assert records == [(2, ("a", "1.5", None)), (3, ("b, c", "2", None))]
    assert problems == []


def test_a_record_has_the_line_on_which_it_begins(tmp_path: Path) -> None:
    content = 'key,quantity,note\n\na,1,"one\ntwo"\n\nb,x,\nc,3,\n'

    records, problems = read(tmp_path, content)

    assert [line for line, _ in records] == [3, 6, 7]
    assert problems == [
        r"3: note: 'one\ntwo' holds a control character",
        "6: quantity: 'x' is not a number such as 12.5",
    ]


def test_a_ragged_row_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    records, problems = read(tmp_path, "key,quantity\na\nb,1,2\nc,1\n")

    assert problems == [
        "2: : it has 1 values, the header has 2",
        "3: : it has 3 values, the header has 2",
    ]
    assert records[-1] == (4, ("c", "1", None))


def test_a_value_that_is_needed_must_be_there(tmp_path: Path) -> None:
    _, problems = read(tmp_path, "key,quantity\n,\n")

    assert problems == [
        "2: key: the value is missing",
        "2: quantity: the value is missing",
    ]


def test_jsonl_is_read_as_csv_is(tmp_path: Path) -> None:
    content = '{"key": "a", "quantity": 1.50}\n\n{"quantity": "2", "key": 7}\n'

    records, problems = read(tmp_path, content, "jsonl")

    assert records == [(1, ("a", "1.50", None)), (3, ("7", "2", None))]
    assert problems == []


def test_a_number_in_json_never_becomes_a_float(tmp_path: Path) -> None:
    content = '{"key": "a", "quantity": 0.100000000000000001}\n'

    records, _ = read(tmp_path, content, "jsonl")

    assert records == [(1, ("a", "0.100000000000000001", None))]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "it is not valid JSON"),
        ("[]", "it is not a JSON object"),
        ('{"key": "a", "key": "b", "quantity": 1}', "a name stands twice"),
        ('{"key": "a", "quantity": [1]}', "quantity: ['1'] is not a plain value"),
        ('{"key": "a", "quantity": NaN}', "quantity: 'NaN' is not a number"),
        ('{"key": "a", "quantity": 1e999}', "quantity: '1e999' is not a number"),
        ('{"key": "a", "quantity": 1, "qty": 1}', "qty: there is no such column"),
        ('{"key": "a"}', "quantity: the value is missing"),
        ('{"key": "\\u0000", "quantity": 1}', "holds a control character"),
        ('{"key": "\\ud800", "quantity": 1}', "holds a control character"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_what_is_wrong_with_a_json_line_is_told(
    tmp_path: Path, line: str, problem: str
) -> None:
    content = f'{line}\n{{"key": "b", "quantity": 1}}\n'

    records, problems = read(tmp_path, content, "jsonl")

    assert problems[0].startswith("1: ")
    assert problem in problems[0]
    assert records[-1] == (2, ("b", "1", None))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "file.csv is empty."),
        ("\ufeff", "file.csv is empty."),
        ("\n\n", "file.csv is empty."),
        (
            b"key,quantity\nM\xfcller,1\n",
            "file.csv:2: the file is not UTF-8: byte 0xfc",
        ),
        ("key,quantity\na,1\n".encode("utf-16"), "file.csv:1: the file is not UTF-8"),
        ("key,quantity\na\0,1\n", "file.csv:2: the line holds a NUL byte."),
        ('key,quantity\na,1\n"b,2\n', "file.csv:3: the CSV is not valid"),
        ('key,quantity\n"a"b,1\n', "file.csv:2: the CSV is not valid"),
        ("key,quantity\rb,1\r", "file.csv:1: the CSV is not valid"),
        ("key;quantity\na;1\n", "file.csv:1: the values are not separated by commas."),
        ("key,qty\na,1\n", "there is no column 'qty'; the column quantity is missing"),
        ("key,key,quantity\n", "the column key stands twice"),
        (f"key,quantity\n{'a' * 1_000_001},1\n", "longer than 1,000,000 bytes"),
        (f'key,quantity\n"{"a" * 200_000}",1\n', "the CSV is not valid: field larger"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, content: bytes | str, sentence: str
) -> None:
    assert sentence in stops(tmp_path, content)


def test_an_empty_file_of_json_lines_is_told_too(tmp_path: Path) -> None:
    assert stops(tmp_path, "", "jsonl") == "file.jsonl is empty."


def test_a_header_without_records_is_a_file_without_records(tmp_path: Path) -> None:
    assert read(tmp_path, "key,quantity\n") == ([], [])


@pytest.mark.parametrize(
    ("name", "error", "sentence"),
    [
        (
            "absent.csv",
            InputError,
            "cannot read absent.csv: No such file or directory.",
        ),
        ("folder.csv", InputError, "cannot read folder.csv: Is a directory."),
        ("data.txt", UsageError, "Add --format csv or --format jsonl."),
    ],
)
def test_a_file_that_cannot_be_opened_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    error: type[PgbillError],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()

    with pytest.raises(error) as raised, reading.opened(name, format_=None):
        pass

    assert sentence in str(raised.value)
    assert raised.value.exit_code == 2
