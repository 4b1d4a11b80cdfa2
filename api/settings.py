"""Settings of the service, read once from the environment.

Each field's description gives its meaning, its unit in brackets and its range, so that one sentence serves the list of
settings and the message about a value that is not accepted.
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

PREFIX = "DARRM_"
"""Prefix of every setting's environment variable; the rest is its name in capitals."""

KILL_SECONDS = 10.0
"""Time after `Settings.stop_seconds` at which a process that is still there ends itself, or is killed [s]."""

PREFIX_PATTERN = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
"""Form of a path prefix: no slash at its end, nothing that a browser reads otherwise."""

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
"""Words separated by commas in one variable."""

Networks = Annotated[CommaSeparated, _of_each(lambda word: str(ipaddress.ip_network(word, strict=False)))]
"""Networks, or addresses, likewise."""

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Settings of the service; each is ``DARRM_<NAME>`` in the environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    # ------------------------------------------------------------------------------------------ answers

    cache_url: str = Field(
        default_factory=lambda: cache_url({}),
        description="Store of answers: sqlite:///FILE, postgresql+psycopg://USER@HOST/NAME, 'memory' or 'off'; unless "
        "set, a SQLite file in the user's cache folder.",
    )
    max_stored_bytes: Annotated[int, Field(ge=2**20, le=2**50)] | None = Field(
        default=None,
        description="Maximum length of all stored answers together, beyond which the least recently read leave, but "
        "for those with a tag [bytes]; a whole number from 1048576 to 1125899906842624; unless set, no limit.",
    )
    max_stored_bytes_per_client: Annotated[int, Field(ge=2**16, le=2**50)] | None = Field(
        default=None,
        description="Maximum length of the stored answers of one client (those designed for its keys), beyond which "
        "its least recently read leave, those with a tag last [bytes]; a whole number from 65536 to 1125899906842624; "
        "unless set, no limit.",
    )
    max_stored_days: Annotated[float, Field(ge=1, le=36_500)] | None = Field(
        default=None,
        description="Days without a read after which a stored answer leaves, unless it has a tag [d]; from 1 to 36500; "
        "unless set, it stays.",
    )
    solve: Literal["on", "off"] = Field(
        default="on",
        description="Whether answers that are not stored yet are designed; 'on' or 'off' (stored answers only).",
    )
    solvers: Annotated[int, Field(ge=1, le=256)] = Field(
        default_factory=lambda: default_solvers(memory_limit(), processor_count()),
        description="Solves that each worker runs at once; a whole number from 1 to 256; unless set, one for each "
        "processor that the container may use, fewer where its memory is small.",
    )
    time_limit: Seconds = Field(
        default=60.0,
        description="Longest solve [s], a number above 0; after it the best certified answer so far is returned.",
    )
    wait_seconds: Annotated[float, Field(ge=0, le=60)] = Field(
        default=2.0,
        description="How long a request waits for a solve before it is answered with the job [s]; from 0 to 60.",
    )

    max_solver_memory: Annotated[int, Field(ge=MIN_MEMORY, le=2**20)] | None = Field(
        default=None,
        description=f"Maximum memory of one solver process [MiB]; a whole number from {MIN_MEMORY} to 1048576; unless "
        "set, an equal share of the container's memory (or the machine's), at most 2048.",
    )
    prestart: bool = Field(
        default=False,
        description="Whether solver processes start with the server, rather than on first use; 'true' or 'false'.",
    )
    lease_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        default=10.0,
        description="Lease of a running job: how long after its server was killed another takes it over [s]; from 1 "
        "to 3600.",
    )

    # ------------------------------------------------------------------------------------------- limits

    max_voters: Count = Field(
        default=101,
        description="Maximum voters of a request [voters]; ten times as many of an account, a comparison, a plan or a "
        "table of classes; a whole number, at least 1.",
    )
    max_work_seconds: Seconds = Field(
        default=3600.0,
        description="Maximum estimated time of one request [s], a number above 0; its job is stopped after twice that.",
    )
    short_seconds: Annotated[float, Field(ge=0, le=60)] = Field(
        default=1.0,
        description="Estimated time up to which work is short: it has processes of its own, and longer work is a job "
        "[s]; from 0 (everything but error curves is a job) to 60.",
    )
    max_batch: Count = Field(
        default=1000, description="Maximum problems in one batch [problems]; a whole number, at least 1."
    )
    max_queued_jobs: Count = Field(
        default=1000, description="Maximum jobs waiting in the queue [jobs]; a whole number, at least 1."
    )
    max_running_jobs_per_client: Count | None = Field(
        default=None,
        description="Maximum jobs of one client that run at once, on all servers of the store; a whole number, at "
        "least 1; unless set, no limit.",
    )
    max_compute: Count = Field(
        default=64,
        description="Maximum curves, certificates and accounts that each worker computes or queues, half of them for "
        "one client; a whole number, at least 1.",
    )
    max_body_bytes: Annotated[int, Field(ge=1024, le=2**30)] = Field(
        default=2**20, description="Maximum request body [bytes]; a whole number from 1024 to 1073741824."
    )
    max_head_bytes: Annotated[int, Field(ge=1024, le=2**20)] = Field(
        default=2**17,
        description="Maximum request line and headers together [bytes]; a whole number from 1024 to 1048576.",
    )
    max_received_bytes: Annotated[int, Field(ge=2**16, le=2**40)] = Field(
        default=2**26,
        description="Maximum bytes of requests, heads and bodies, that each worker holds until they are answered, "
        "and always one whole request [bytes]; a whole number from 65536 to 1099511627776.",
    )
    max_unread_bytes: Annotated[int, Field(ge=2**16, le=2**40)] = Field(
        default=2**26,
        description="Maximum bytes of answers that each worker holds for clients that do not read them [bytes]; a "
        "whole number from 65536 to 1099511627776.",
    )
    head_seconds: Seconds = Field(
        default=10.0, description="Time for a client to send request line and headers [s]; above 0."
    )
    body_seconds: Seconds = Field(
        default=30.0, description="Time for a client to send a body, or to read more of an answer [s]; above 0."
    )
    idle_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=30, description="How long an idle connection stays open [s]; a whole number from 1 to 3600."
    )
    max_connections: Count = Field(
        default=2000, description="Maximum open connections of each worker; a whole number, at least 1."
    )
    max_connections_per_address: Count | None = Field(
        default=None,
        description="Maximum open connections of one address (IPv6: its /64) to each worker, trusted proxies exempt; "
        "a whole number, at least 1; unless set, half of all.",
    )
    max_concurrent_requests: Count = Field(
        default=1000, description="Maximum requests that each worker answers at once; a whole number, at least 1."
    )
    max_streams: Count | None = Field(
        default=None,
        description="Maximum event streams that each worker serves at once, half of them for one client; a whole "
        "number, at least 1; unless set, a quarter of its connections.",
    )
    rate: Annotated[float, Field(ge=0, le=1e6)] | None = Field(
        default=None,
        description="Requests of one key, or of one address without a key, in the long run [1/s]; from 0 (no limit) to "
        "1000000; unless set, 100, and no limit for programs on this machine that send no key.",
    )
    burst: Count = Field(
        default=200, description="Requests that may come at once before the rate applies; a whole number, at least 1."
    )
    job_rate: Annotated[float, Field(ge=0, le=1e6)] | None = Field(
        default=None,
        description="New problems of one key, or of one address without a key, in the long run [1/s]; from 0 (no "
        "limit) to 1000000; unless set, 1, and no limit for programs on this machine that send no key.",
    )
    job_burst: Count = Field(
        default=500,
        description="New problems that may come at once before that rate applies; a whole number, at least 1.",
    )

    # ------------------------------------------------------------------------------------------- access

    keys: Path | None = Field(
        default=None, description="File of API keys, as `darrm keys` writes it; unless set, no key is required."
    )
    private_designs: bool = Field(
        default=False,
        description="Whether a client lists and reads by id only answers that were designed for its keys, or for "
        "nobody; 'true' or 'false'; 'true' needs DARRM_KEYS.",
    )
    public: bool = Field(
        default=False, description="Whether other machines may use the service without a key; 'true' or 'false'."
    )
    hosts: Annotated[CommaSeparated, _of_each(lambda name: _matching(name.lower(), _HOST))] = Field(
        default=(),
        description="Host names of the service, separated by commas; '*.' before a name for all its subdomains; unless "
        "set, any name, but over loopback only loopback names.",
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
        "root, or what trusted proxies say in X-Forwarded-Prefix.",
    )

    # ----------------------------------------------------------------------------------------- webhooks

    webhook_secret: SecretStr | None = Field(
        default=None,
        description="Secret from which the signatures of webhooks are derived: whsec_ and 24 to 64 bytes in base64, "
        "several separated by commas while one replaces another; unless set, there are no webhooks.",
    )
    webhook_networks: Networks = Field(
        default=(),
        description="Private networks that webhooks may be sent to, separated by commas, such as 10.0.0.0/8; with "
        "one of loopback also by plain http there; unless set, public addresses alone, by https.",
    )
    webhook_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=10.0, description="Time for one delivery of a webhook [s]; above 0, at most 60."
    )

    # ---------------------------------------------------------------------------------------- operating

    workers: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="Worker processes that answer requests; a whole number from 1 to 64."
    )
    run_folder: Path | None = Field(
        default=None,
        description="Folder that workers share while they run (rate limits, metrics); unless set, a temporary one.",
    )
    stop_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=10,
        description="Time for open requests to finish when the service stops [s]; a whole number from 1 to 3600.",
    )
    ready_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=5.0, description="How long /readyz reuses its last finding [s]; from 0 to 3600."
    )
    metrics: Literal["key", "admin", "open", "off"] = Field(
        default="key",
        description="Who may read /metrics: 'key' (like everything else), 'admin' (keys of that role), "
        "'open' (without a key) or 'off' (nobody).",
    )
    access_log: str | None = Field(
        default=None,
        description="File to which the access log is appended, a JSON object for each request, "
        "or 'stderr'; unless set, there is none.",
    )
    log_format: Literal["console", "json"] = Field(
        default="console", description="Form of the log on stderr; 'console' or 'json'."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Lowest level that is logged; 'debug', 'info' (a line for each request), 'warning' or 'error'.",
    )

    @cached_property
    def solver_memory(self) -> int:
        """Most memory of one solver process [MiB]: the setting, or a share of what there is."""
        return solver_memory(self.max_solver_memory, self.workers, self.solvers, memory_limit())

    @property
    def webhook_secrets(self) -> tuple[bytes, ...]:
        """The secrets of webhooks, the newest first."""
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
        if value and info.data.get("keys") is None:  # no client has a name
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
    """Return the settings of the environment; ``overrides`` take precedence over it."""
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
"""Variables of the client, the design, the command line and the build, which may stand beside those of the service."""


def misspelt_settings(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence about each variable that looks like a setting and is none, without its value.

    >>> misspelt_settings({"DARRM_SOLVER": "2", "DARRM_KEY": "secret", "PATH": ""})
    ['DARRM_SOLVER is no setting and has no effect; DARRM_SOLVERS is one.']
    """
    names = {PREFIX + name.upper() for name in Settings.model_fields}
    misspelt = [name for name in environment if name.upper().startswith(PREFIX) and name not in names | OTHER_VARIABLES]
    sentences = []
    for name in sorted(misspelt):
        matches = similar_names(name, names)
        sentences.append(f"{name} is no setting and has no effect{f'; {matches[0]} is one' if matches else ''}.")
    return sentences


class SettingRow(NamedTuple):
    """A setting as an operator sees it."""

    variable: str  # in the environment
    value: Any  # in plain data, passwords masked
    origin: Literal["environment", "default"]  # "environment" or "default"
    description: str  # what it is, its unit and its range


def list_settings(settings: Settings) -> list[SettingRow]:
    """Return every setting in the order of its definition; no secret is among them.

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
    """Return a database URL without its password, wherever it stands.

    >>> mask_password("postgresql+psycopg://me@db/darrm?user=me&password=secret&sslmode=require")
    'postgresql+psycopg://me@db/darrm?user=me&password=***&sslmode=require'
    """
    return re.sub(r"([?&](?:ssl)?password=)[^&#]*", r"\1***", re.sub(r"(://[^:/@?#]*:)[^?#]*@", r"\1***@", url))
