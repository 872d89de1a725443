"""Whether what a configuration names can be followed: rule folders, web configuration, addresses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bubblewatch.app.config import Config
from bubblewatch.app.live import gpu_names
from bubblewatch.app.rules import rules_in_force
from bubblewatch.diagnose.rule import Rule
from bubblewatch.exporter.sockets import UNIX_PREFIX, listen_address
from bubblewatch.exporter.web_config import read_web_config


def check_named_files(config: Config) -> None:
    """Raise UsageError for the first thing that the daemon would refuse. Listens on nothing and starts nothing."""
    configured_rules(config)
    gpu_names(config.gpus)
    for address in config.listen:
        if not address.startswith(UNIX_PREFIX):
            listen_address(address)
    if config.web_config is not None:
        web = read_web_config(config.web_config)
        if web.tls is not None:
            web.tls.context()


def configured_rules(config: Config) -> Sequence[Rule]:
    """The shipped rules and those of the configured folders. Raises RuleError or UsageError."""
    return rules_in_force(tuple(map(Path, config.rules)), config.ignore)
