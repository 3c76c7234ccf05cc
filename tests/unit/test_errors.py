"""Every error is one sentence and an exit code that cron can act upon."""

import pytest

from pgbill import errors


def test_the_docstring_is_the_default_message() -> None:
    assert str(errors.FrozenError()) == "What has been issued never changes."


def test_a_hint_follows_the_message() -> None:
    error = errors.ConfigError("there is no database.", hint="Set PGBILL_DSN.")

    assert str(error) == "there is no database. Set PGBILL_DSN."


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (errors.PgbillError, 1),
        (errors.FindingsError, 1),
        (errors.LeaseLostError, 1),
        (errors.UsageError, 2),
        (errors.InputError, 2),
        (errors.TemporaryError, 75),
        (errors.ConfigError, 78),
        (errors.SchemaError, 78),
    ],
)
def test_the_exit_code_says_what_to_do(
    error: type[errors.PgbillError], exit_code: int
) -> None:
    assert error().exit_code == exit_code


def test_each_refusal_has_a_sqlstate_of_its_own() -> None:
    states = [refusal.sqlstate for refusal in errors.RefusalError.__subclasses__()]

    assert len(states) == len(set(states))
    assert all(state.startswith("IV") for state in states)
