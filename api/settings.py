"""Settings of the service, read once from the environment.

A number's range is declared once: for its check, and for the description, which the reference and the error show.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from api.server.container_limits import MIN_MEMORY, default_solvers, memory_limit, processor_count, solver_memory
from darrm_client.webhooks import read_webhook_secret
from darrm_opt.errors import InvalidInput, similar_names
from solver_cache.location import VARIABLE, cache_url

PREFIX = "DARRM_"  # prefix of the environment variables; the rest is the setting's name in capitals
KILL_SECONDS = 10.0  # time after `Settings.stop_seconds` at which a process that is still running is killed

PREFIX_PATTERN = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
"""Path prefix: no trailing slash, nothing that a browser normalises."""

_HOST = re.compile(r"(\*\.)?[a-z0-9_.-]+|\[[0-9a-f:.]+\]")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9_.-]+(:[0-9]+)?|https?://\[[0-9A-Fa-f:.]+\](:[0-9]+)?")


def _matching(text: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(text)
    return text


def _split(value: Any) -> Any:
    return tuple(word for word in map(str.strip, value.split(",")) if word) if isinstance(value, str) else value


def _of_each(read: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda words: tuple(map(read, words)))


CommaSeparated = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Networks = Annotated[CommaSeparated, _of_each(lambda word: str(ipaddress.ip_network(word, strict=False)))]


def _whole(default: Any, meaning: str, low: int = 1, high: int | None = None, *, unset: str = "") -> Any:
    """Return the field of a whole number from ``low`` to ``high``."""
    expected = f"a whole number, at least {low}" if high is None else f"a whole number from {low} to {high}"
    return _field(default, f"{meaning}; {expected}", unset, ge=low, le=high)


def _real(default: float | None, meaning: str, low: int, high: int, *, unset: str = "") -> Any:
    """Return the field of a number from ``low`` to ``high``."""
    return _field(default, f"{meaning}; from {low} to {high}", unset, ge=low, le=high)


def _positive(default: float, meaning: str, high: int | None = None) -> Any:
    """Return the field of a finite number above 0, and at most ``high``."""
    expected = "above 0" if high is None else f"above 0, at most {high}"
    return _field(default, f"{meaning}; {expected}", gt=0, le=high, allow_inf_nan=False)


def _field(default: Any, meaning: str, unset: str = "", **limits: Any) -> Any:
    """Return a field within limits; ``unset`` says what holds without a value."""
    given = {"default_factory" if callable(default) else "default": default, **limits}
    return Field(description=f"{meaning}{unset and f'; unless set, {unset}'}.", **given)


class Settings(BaseSettings):
    """Settings of the service; each is ``DARRM_<NAME>`` in the environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    # ------------------------------------------------------------------------------------------ answers

    cache_url: str = Field(
        default_factory=lambda: cache_url({}),
        description="Store of answers: sqlite:///FILE, postgresql+psycopg://USER@HOST/NAME, 'memory' or 'off'; unless "
        "set, a SQLite file in the user's cache folder.",
    )
    max_stored_bytes: int | None = _whole(
        None,
        "Maximum total size of stored answers, beyond which the least recently read are removed, except tagged ones "
        "[bytes]",
        2**20,
        2**50,
        unset="no limit",
    )
    max_stored_bytes_per_client: int | None = _whole(
        None,
        "Maximum total size of one client's stored answers (those designed for its keys), beyond which its least "
        "recently read are removed, tagged ones last [bytes]",
        2**16,
        2**50,
        unset="no limit",
    )
    max_stored_days: float | None = _real(
        None,
        "Days without a read after which a stored answer is removed, unless it has a tag [d]",
        1,
        36500,
        unset="it stays",
    )
    solve: Literal["on", "off"] = Field(
        default="on",
        description="Whether new answers are designed; 'on' or 'off' (stored answers only).",
    )
    solvers: int = _whole(
        lambda: default_solvers(memory_limit(), processor_count()),
        "Concurrent solves of each worker",
        high=256,
        unset="one per processor of the container, fewer if memory is short",
    )
    time_limit: float = _positive(
        60.0, "Time limit of a solve [s], after which the best certified answer so far is returned"
    )
    wait_seconds: float = _real(
        2.0, "Time that a request waits for a solve before the response refers to the job [s]", 0, 60
    )

    max_solver_memory: int | None = _whole(
        None,
        "Maximum memory of one solver process [MiB]",
        MIN_MEMORY,
        2**20,
        unset="an equal share of the container's memory (or the machine's), at most 2048",
    )
    prestart: bool = Field(
        default=False,
        description="Whether solver processes start with the server, rather than on first use; 'true' or 'false'.",
    )
    lease_seconds: float = _real(
        10.0, "Lease of a running job, after which another server takes over from one that was killed [s]", 1, 3600
    )

    # ------------------------------------------------------------------------------------------- limits

    max_voters: int = _whole(
        101,
        "Maximum number of voters of a request, and ten times as many for an account, a comparison, a plan or a table "
        "of classes",
    )
    max_work_seconds: float = _positive(
        3600.0, "Maximum estimated time of one request [s], whose job is stopped after twice that"
    )
    short_seconds: float = _real(
        1.0,
        "Estimated time up to which work counts as short: it has its own processes, and longer work becomes a job [s] "
        "(at 0, everything but error curves)",
        0,
        60,
    )
    max_batch: int = _whole(1000, "Maximum problems in one batch [problems]")
    max_queued_jobs: int = _whole(1000, "Maximum jobs waiting in the queue [jobs]")
    max_running_jobs_per_client: int | None = _whole(
        None, "Maximum concurrent jobs of one client, on all servers of the store", unset="no limit"
    )
    max_compute: int = _whole(
        64, "Maximum curves, certificates and accounts running or queued in each worker, half of them for one client"
    )
    max_body_bytes: int = _whole(2**20, "Maximum request body [bytes]", 1024, 2**30)
    max_head_bytes: int = _whole(2**17, "Maximum request line and headers together [bytes]", 1024, 2**20)
    max_received_bytes: int = _whole(
        2**26,
        "Memory of each worker for requests until they are answered, at least one whole request [bytes]",
        2**16,
        2**40,
    )
    max_unread_bytes: int = _whole(
        2**26, "Memory of each worker for answers that clients have not read [bytes]", 2**16, 2**40
    )
    head_seconds: float = _positive(10.0, "Time for a client to send request line and headers [s]")
    body_seconds: float = _positive(30.0, "Time for a client to send a body, or to read more of an answer [s]")
    idle_seconds: int = _whole(30, "Time for which an idle connection stays open [s]", 1, 3600)
    max_connections: int = _whole(2000, "Maximum open connections of each worker")
    max_connections_per_address: int | None = _whole(
        None,
        "Maximum open connections of one address (IPv6: its /64) to each worker, trusted proxies exempt",
        unset="half of all",
    )
    max_concurrent_requests: int = _whole(1000, "Maximum concurrent requests of each worker")
    max_streams: int | None = _whole(
        None,
        "Maximum concurrent event streams of each worker, half of them for one client",
        unset="a quarter of its connections",
    )
    rate: float | None = _real(
        None,
        "Sustained request rate of one key, or of one address without a key [1/s], 0 for no limit",
        0,
        1_000_000,
        unset="100, and no limit for programs on this machine that send no key",
    )
    burst: int = _whole(200, "Requests in a burst before the rate applies")
    job_rate: float | None = _real(
        None,
        "Sustained rate of new problems of one key, or of one address without a key [1/s], 0 for no limit",
        0,
        1_000_000,
        unset="1, and no limit for programs on this machine that send no key",
    )
    job_burst: int = _whole(500, "New problems in a burst before the rate applies")

    # ------------------------------------------------------------------------------------------- access

    keys: Path | None = Field(
        default=None, description="File of API keys, as `darrm keys` writes it; unless set, no key is required."
    )
    private_designs: bool = Field(
        default=False,
        description="Whether a client can list, and read by id, only public answers and those designed for its keys; "
        "'true' or 'false'; 'true' needs DARRM_KEYS.",
    )
    public: bool = Field(
        default=False, description="Whether other machines can use the service without a key; 'true' or 'false'."
    )
    hosts: Annotated[CommaSeparated, _of_each(lambda name: _matching(name.lower(), _HOST))] = Field(
        default=(),
        description="Host names of the service, separated by commas; '*.' before a name for all its subdomains; "
        "unless set, any name, but over loopback only loopback names.",
    )
    cors_origins: Annotated[CommaSeparated, _of_each(lambda origin: _matching(origin, _ORIGIN))] = Field(
        default=(),
        description="Web origins whose pages may call the service (CORS), "
        "such as https://example.org, separated by commas.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Prefix are trusted, "
        "separated by commas.",
    )
    path_prefix: str = Field(
        default="",
        description="Path below which a proxy publishes the service, such as /darrm, for links; unless set, the "
        "root, or the X-Forwarded-Prefix of trusted proxies.",
    )

    # ----------------------------------------------------------------------------------------- webhooks

    webhook_secret: SecretStr | None = Field(
        default=None,
        description="Secret from which the signatures of webhooks are derived: whsec_ and 24 to 64 bytes in base64, "
        "or several, separated by commas, during rotation; unless set, webhooks are off.",
    )
    webhook_networks: Networks = Field(
        default=(),
        description="Private networks that may receive webhooks, separated by commas, such as 10.0.0.0/8; plain http "
        "is accepted within a loopback network; unless set, public addresses only, over https.",
    )
    webhook_seconds: float = _positive(10.0, "Time for one delivery of a webhook [s]", 60)

    # ---------------------------------------------------------------------------------------- operating

    workers: int = _whole(1, "Worker processes", high=64)
    run_folder: Path | None = Field(
        default=None,
        description="Folder that running workers share (rate limits, metrics); unless set, a temporary one.",
    )
    stop_seconds: int = _whole(10, "Time for open requests to finish when the service stops [s]", 1, 3600)
    ready_seconds: float = _real(5.0, "Time for which /readyz reuses its last result [s]", 0, 3600)
    metrics: Literal["key", "admin", "open", "off"] = Field(
        default="key",
        description="Access to /metrics: 'key' (any key, like everything else), 'admin' (keys of that role), 'open' "
        "(no key) or 'off' (nobody).",
    )
    access_log: str | None = Field(
        default=None,
        description="File of the access log, one JSON object per request, or 'stderr'; unless set, there is no "
        "access log.",
    )
    log_format: Literal["console", "json"] = Field(
        default="console", description="Format of the log on stderr; 'console' or 'json'."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Log level; 'debug', 'info' (one line per request), 'warning' or 'error'.",
    )

    @cached_property
    def solver_memory(self) -> int:
        """Maximum memory of one solver process [MiB]."""
        return solver_memory(self.max_solver_memory, self.workers, self.solvers, memory_limit())

    @property
    def webhook_secrets(self) -> tuple[bytes, ...]:
        """Secrets of webhooks, newest first."""
        return () if self.webhook_secret is None else _secrets_of(self.webhook_secret)

    @field_validator("webhook_secret")
    @classmethod
    def _are_secrets(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _secrets_of(value)
        return value

    @field_validator("private_designs")
    @classmethod
    def _has_clients(cls, value: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 — a validator's
        if value and info.data.get("keys") is None:  # without keys, clients cannot be told apart
            raise ValueError(value)
        return value

    @field_validator("cache_url")
    @classmethod
    def _blank_is_unset(cls, value: str) -> str:
        return cache_url({VARIABLE: value})

    @field_validator("path_prefix")
    @classmethod
    def _is_prefix(cls, value: str) -> str:
        prefix = value.strip().removesuffix("/")
        return _matching(prefix, PREFIX_PATTERN) if prefix else ""


def _secrets_of(value: SecretStr) -> tuple[bytes, ...]:
    return tuple(read_webhook_secret(secret) for secret in value.get_secret_value().split(","))


def read_settings(**overrides: Any) -> Settings:
    """Return the settings of the environment, with ``overrides``."""
    try:
        return Settings(**overrides)
    except ValidationError as err:
        error = err.errors(include_url=False)[0]
        name = str(error["loc"][0])
        field = Settings.model_fields[name]
        meaning, hidden = str(field.description).rstrip("."), SecretStr in get_args(field.annotation)
        accepted = f"the {meaning[0].lower()}{meaning[1:]}"
        if meaning.startswith("Whether"):
            accepted = meaning.partition("; ")[2]
        invalid = InvalidInput(PREFIX + name.upper(), "(hidden)" if hidden else error["input"], accepted)
        raise invalid from (None if hidden else err)


OTHER_VARIABLES = frozenset({"DARRM_URL", "DARRM_KEY", "DARRM_KERNEL", "DARRM_FORMAL_CHECKER", "DARRM_BUILD_KERNEL"})
"""Valid variables of the client, the design, the command line and the build."""


OPTIONS = ("PORT", "HOST")
"""Options of ``darrm serve`` that may be taken for settings."""


def misspelt_settings(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence about each variable that looks like a setting but is not one, without its value.

    >>> misspelt_settings({"DARRM_SOLVER": "2", "DARRM_KEY": "secret", "PATH": ""})
    ['DARRM_SOLVER is not a setting and has no effect. Did you mean DARRM_SOLVERS?']
    """
    names = {PREFIX + name.upper() for name in Settings.model_fields}
    misspelt = [name for name in environment if name.upper().startswith(PREFIX) and name not in names | OTHER_VARIABLES]
    sentences = []
    for name in sorted(misspelt):
        bare = name.upper().removeprefix(PREFIX)
        matches = similar_names(bare, (each.removeprefix(PREFIX) for each in names))
        advice = f" Did you mean {PREFIX}{matches[0]}?" if matches else ""
        if bare in OPTIONS:
            advice = f" Use the option --{bare.lower()} of `darrm serve`."
        sentences.append(f"{name} is not a setting and has no effect.{advice}")
    return sentences


class SettingRow(NamedTuple):
    """Setting, as shown to an operator."""

    variable: str  # in the environment
    value: Any  # plain data, with passwords masked
    origin: Literal["environment", "default"]
    description: str  # meaning, unit and range


def list_settings(settings: Settings) -> list[SettingRow]:
    """Return every setting, in the order of definition, without secrets.

    >>> [setting.value for setting in list_settings(Settings(cache_url="postgresql+psycopg://me:secret@db/darrm"))][0]
    'postgresql+psycopg://me:***@db/darrm'
    """
    values = settings.model_dump(mode="json")
    return [
        SettingRow(
            PREFIX + name.upper(),
            mask_password(values[name]) if name == "cache_url" else values[name],
            "environment" if name in settings.model_fields_set else "default",
            str(field.description),
        )
        for name, field in Settings.model_fields.items()
    ]


def mask_password(url: str) -> str:
    """Return a database URL without its password.

    >>> mask_password("postgresql+psycopg://me@db/darrm?user=me&password=secret&sslmode=require")
    'postgresql+psycopg://me@db/darrm?user=me&password=***&sslmode=require'
    """
    return re.sub(r"([?&](?:ssl)?password=)[^&#]*", r"\1***", re.sub(r"(://[^:/@?#]*:)[^?#]*@", r"\1***@", url))
