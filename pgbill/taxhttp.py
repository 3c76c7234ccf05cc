"""Ask a tax service over HTTP: one POST of JSON for each question.

The contract is described in `docs/tax-service.md` and `docs/tax-service.openapi.yaml`.
What is said to a question is told by the status alone: 200 is an answer; 429 wants
fewer questions; 408, 425 and 5xx may be tried again, after as long as `Retry-After`
says; 401, 403, 404 and 405 mean that we are not let in, or have the wrong address; any
other is the service's last word, and its own words are kept for the people who read
why an account failed.

Each call that is in flight has a client of its own, which keeps its connection for the
next: a pool looks at all of its connections at each request, which for a thousand of
them takes longer than the request.
"""

import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit, urlunsplit

import httpx

from pgbill.errors import ConfigError
from pgbill.tax import (
    Question,
    TaxDeniedError,
    TaxError,
    TaxLimitedError,
    TaxService,
    TaxUnavailableError,
    printable,
)

_OK = 200
_LIMITED = 429
_NOT_LET_IN = (401, 403, 404, 405)
_TOO_EARLY = (408, 425)
_SERVER_ERROR = 500

_WORDS_LIMIT = 200
_ANSWER_LIMIT = 8_000_000


class HttpTax:
    """A tax service that is asked over HTTP."""

    def __init__(self, service: TaxService) -> None:
        """Name the service; nothing is connected yet."""
        assert service.url is not None
        self.name = public(service.url)
        self._url = service.url
        self._service = service
        self._trust = trust(service)
        self._clients: list[httpx.AsyncClient] = []
        self._idle: list[httpx.AsyncClient] = []
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if service.token:
            headers["Authorization"] = f"Bearer {service.token}"
        self._headers = headers

    async def assess(self, question: Question) -> str:
        """Ask once.

        Raises:
            TaxError: The service is away, too slow, or says no in its own words.
        """
        client = self._idle.pop() if self._idle else self._connect()
        try:
            async with client.stream(
                "POST",
                self._url,
                content=question.text,
                headers={"Idempotency-Key": question.idempotency_key},
            ) as reply:
                text = await _read(reply)
        except httpx.TimeoutException as error:
            told = "the tax service did not answer in time"
            raise TaxUnavailableError(told) from error
        except httpx.HTTPError as error:
            # Some of them say nothing.
            told = str(error) or type(error).__name__
            raise TaxUnavailableError(
                f"the tax service cannot be reached: {told}"
            ) from error
        finally:
            self._idle.append(client)
        if reply.status_code != _OK:
            raise refused(reply.status_code, text, reply.headers.get("Retry-After"))
        return text

    async def close(self) -> None:
        """Hang up."""
        for client in self._clients:
            await client.aclose()

    def _connect(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        timeout = httpx.Timeout(
            self._service.read_seconds, connect=self._service.connect_seconds
        )
        client = httpx.AsyncClient(
            headers=self._headers, verify=self._trust, timeout=timeout, limits=limits
        )
        self._clients.append(client)
        return client


def require(service: TaxService) -> None:
    """Refuse an address or a file that can only be wrong.

    Raises:
        ConfigError: It is.
    """
    try:
        httpx.URL(service.url or "")
    except httpx.InvalidURL as error:
        raise ConfigError(f"PGBILL_TAX_URL is wrong: {error}.") from error
    if service.ca_file is not None:
        trust(service)


def trust(service: TaxService) -> ssl.SSLContext:
    """Return whom to trust: the authorities of a file, or the usual ones.

    Raises:
        ConfigError: There is no certificate in the file.
    """
    if service.ca_file is None:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=service.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"PGBILL_TAX_CA_FILE is wrong: {service.ca_file} holds no certificates."
        ) from error


def public(url: str) -> str:
    """Return the URL without what may be secret in it: login, query, fragment."""
    parts = urlsplit(url)
    return urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")
    )


def refused(status: int, text: str, retry_after: str | None) -> TaxError:
    """Turn what is not an answer into an error, by its status."""
    words = printable(text)[:_WORDS_LIMIT]
    told = (
        f"the tax service says {status}: {words}"
        if words
        else (f"the tax service says {status}")
    )
    seconds = wait_of(retry_after)
    if status == _LIMITED:
        return TaxLimitedError(told, retry_after=seconds)
    if status in _TOO_EARLY or status >= _SERVER_ERROR:
        return TaxUnavailableError(told, retry_after=seconds)
    if status in _NOT_LET_IN:
        return TaxDeniedError(told)
    return TaxError(told)


def wait_of(retry_after: str | None, *, now: datetime | None = None) -> float | None:
    """Return the seconds of a `Retry-After`: a number, or a date; none if neither."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a zone is meant as GMT, the only one that HTTP knows.
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


async def _read(reply: httpx.Response) -> str:
    """Read the body, up to a size that no answer has."""
    pieces = bytearray()
    async for piece in reply.aiter_bytes():
        pieces += piece
        if len(pieces) > _ANSWER_LIMIT:
            raise TaxError(
                f"the tax service's answer is longer than {_ANSWER_LIMIT:,} bytes"
            )
    return pieces.decode("utf-8", errors="replace")
