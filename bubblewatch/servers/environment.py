"""Environment variables as settings."""

from __future__ import annotations

import re

from bubblewatch.model.redact import is_secret_name
from bubblewatch.model.server import Launch, Origin, Setting
from bubblewatch.servers.argv import value_of


def settings_from_environment(launch: Launch, names: re.Pattern[str]) -> dict[str, Setting]:
    """The variables of the launch whose name `names` matches, under their own names; {} when it could not be read."""
    return {
        name: Setting(name, value_of(value), Origin.ENVIRONMENT, f"{name}={value}")
        for name, value in (launch.env or {}).items()
        if names.fullmatch(name) and not is_secret_name(name)
    }
