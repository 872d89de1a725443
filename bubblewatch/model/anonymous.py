"""Names that tell whose machine a text is about, replaced: host, people, addresses. Secrets are `redact`'s matter."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

_HOME = re.compile(r"(?<![\w.])(/(?:home|Users)/)[^/\s\"':,;]+")
_ADDRESS = re.compile(
    r"(?<![\w.:])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|(?<![\w.:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w.:])"
)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")

SHORTEST_NAME = 4
"""Characters of a host or user name that is replaced wherever it stands: shorter ones are parts of other words."""

_COMMON = frozenset({"root", "host", "localhost", "nobody", "user", "ubuntu", "debian", "admin"})
"""Names that tell nothing about anybody."""


class Anonymiser:
    """Replaces the given names, home folders, addresses beyond this machine and mail addresses.

    The same address gets the same number in every text of one Anonymiser, so that a reader can still tell them apart.
    """

    def __init__(self, hosts: Iterable[str], users: Iterable[str]) -> None:
        self._addresses: dict[str, str] = {}
        named = [(name, "HOST") for name in hosts] + [(name, "USER") for name in users]
        chosen = {n: to for n, to in named if len(n) >= SHORTEST_NAME and n.lower() not in _COMMON}
        longest_first = sorted(chosen, key=len, reverse=True)
        self._names = chosen
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)") if chosen else None

    def clean(self, text: str) -> str:
        """The text without them. Linear in its length."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._names[found[0]], text)
        text = _HOME.sub(r"\1USER", text)
        text = _MAIL.sub("MAIL", text)
        return _ADDRESS.sub(lambda found: self._address(found[0]), text)

    def _address(self, text: str) -> str:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text  # a version, a time of day
        if address.is_loopback or address.is_unspecified:
            return text
        return self._addresses.setdefault(text, f"ADDRESS-{len(self._addresses) + 1}")
