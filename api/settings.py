"""What an operator can set, read once from the environment."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from darrm_opt.errors import InvalidInput
from solver_cache.place import VARIABLE, cache_url

PREFIX = "DARRM_"
"""Every setting is the environment variable of its name in capitals behind this."""


class Settings(BaseSettings):
    """Settings of the service; each is ``DARRM_<NAME>`` in the environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    cache_url: str = Field(
        default_factory=lambda: cache_url({}),
        description="Where answers are kept: sqlite:///FILE, postgresql+psycopg://USER@HOST/NAME, 'memory' or 'off'.",
    )
    most_voters: Annotated[int, Field(ge=1)] = Field(
        default=101, description="Most voters that a request may have [voters]; a whole number, at least 1."
    )
    time_limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        default=60.0,
        description="Longest solve [s], a number above 0; then the best certified answer so far is returned.",
    )
    solvers: Annotated[int, Field(ge=1, le=256)] = Field(
        default_factory=lambda: os.cpu_count() or 1,
        description="Solves that may run at once; a whole number from 1 to 256.",
    )

    @field_validator("cache_url")
    @classmethod
    def _blank_is_unset(cls, value: str) -> str:
        return cache_url({VARIABLE: value})


def read_settings() -> Settings:
    """Return the settings that the environment asks for.

    Raises:
        InvalidInput: naming the variable, its value and what is accepted.
    """
    try:
        return Settings()
    except ValidationError as err:
        first = err.errors(include_url=False)[0]
        name = str(first["loc"][0])
        accepted = str(Settings.model_fields[name].description).rstrip(".")
        raise InvalidInput(PREFIX + name.upper(), first["input"], f"the {accepted[0].lower()}{accepted[1:]}") from err
