"""Options from a YAML file that a launch names: plain values under the names of their options."""

from __future__ import annotations

import yaml

from bubblewatch.model.redact import is_secret_name
from bubblewatch.model.server import Launch, Origin, Setting
from bubblewatch.servers.literal import plain

TEXT_LIMIT = 65_536
"""Characters of an option file that are read; real ones hold some dozens of lines."""


class _NoAliases(yaml.SafeLoader):
    """Refuses aliases: an option file has none, and nested ones grow without bound when they are written out."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def options_in_file(text: str) -> dict[str, object] | None:
    """The top-level fields of a YAML mapping, dashes in names as underscores; None when `text` is no such thing."""
    if len(text) > TEXT_LIMIT:
        return None
    try:
        parsed = yaml.load(text, Loader=_NoAliases)  # noqa: S506 - a SafeLoader that reads less
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if not isinstance(parsed, dict):
        return None
    return {name.replace("-", "_"): value for name, value in parsed.items() if isinstance(name, str)}


def settings_in_file(launch: Launch, path: object) -> dict[str, Setting] | None:
    """The settings of the option file that the launch names `path`; None when its text is not at hand or not YAML."""
    text = launch.files.get(str(path))
    fields = None if text is None else options_in_file(text)
    if fields is None:
        return None
    return {
        name: Setting(name, plain(value), Origin.FILE, f"{path}: {name}: {plain(value)}"[:200])
        for name, value in fields.items()
        if not is_secret_name(name)
    }


def not_read(setting: Setting) -> str:
    """The problem of a launch whose option file could not be read."""
    return f"the file of {setting.evidence} was not read: options may be set there"
