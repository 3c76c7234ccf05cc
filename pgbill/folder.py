"""Deliver mails into a folder, one file each, for what picks them up there.

A file appears complete or not at all, and under the same name at each attempt.
"""

import os
import re
import tempfile
from pathlib import Path

from pgbill.message import Mail
from pgbill.outbox import Message, Outcome


def deliver(folder: Path | None, message: Message, mail: Mail) -> Outcome:
    """Write a mail as `<number>-<message>.eml`, through to the disk."""
    if folder is None:
        return Outcome(
            "deferred", "there is no folder to write to: set PGBILL_MAIL_DIR"
        )
    number = re.sub(r"[^\w-]+", "_", mail.number_text)
    file = folder / f"{number}-{message.message_id}.eml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(file, mail.content)
    except OSError as error:
        return Outcome("deferred", f"{file} cannot be written: {error.strerror}")
    return Outcome("accepted", f"written to {file}")


def _write(file: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(descriptor, 0o640)
            os.fsync(descriptor)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
