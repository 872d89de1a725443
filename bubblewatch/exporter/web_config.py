"""The web configuration: TLS, users and tokens, in the format that Prometheus exporters share.

The keys are those of exporter-toolkit's web-config.yml (docs/web-configuration.md, 0.14); `bearer_token_file` is ours.
Relative paths are taken from the file's own folder, as there.
"""

from __future__ import annotations

import difflib
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bubblewatch.model.errors import ConfigError, Place, UsageError
from bubblewatch.sources.yaml_nodes import Node, read_documents

MAX_BYTES = 1024 * 1024
"""Largest file that is read; one with fifty users has five KiB."""

SHORTEST_TOKEN = 16
"""Characters of a bearer token at least: shorter ones can be guessed over the network."""

_BCRYPT = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_TLS_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_TOP = ("tls_server_config", "http_server_config", "basic_auth_users", "bearer_token_file")
_TLS = ("cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version")
_HTTP = ("http2",)


@dataclass(frozen=True, slots=True)
class Tls:
    """Where the server's certificate is and what is asked of clients."""

    cert_file: Path
    key_file: Path
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    client_ca_file: Path | None = None
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED
    http2: bool = True

    def context(self) -> ssl.SSLContext:
        """A context with the files as they are now. Raises ConfigError when they cannot be used."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version, context.maximum_version = self.min_version, self.max_version
        context.set_alpn_protocols(["h2", "http/1.1"] if self.http2 else ["http/1.1"])
        try:
            context.load_cert_chain(self.cert_file, self.key_file, password=_no_password)
            if self.client_ca_file is not None:
                context.load_verify_locations(self.client_ca_file)
        except (OSError, ssl.SSLError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"the certificate {self.cert_file} with key {self.key_file} cannot be used: {reason}",
                "both are PEM files that this user may read, the key without a password",
            ) from error
        context.verify_mode = self.client_auth
        return context


@dataclass(frozen=True, slots=True)
class WebConfig:
    """How to serve: with TLS or not, and to whom. `users` maps names to bcrypt hashes. Both empty = to everybody."""

    tls: Tls | None = None
    users: Mapping[str, bytes] = field(default_factory=dict)
    tokens: tuple[str, ...] = ()

    @property
    def asks_who(self) -> bool:
        """Whether a client has to say who it is."""
        certificate = self.tls is not None and self.tls.client_auth is ssl.CERT_REQUIRED
        return bool(self.users or self.tokens) or certificate


def read_web_config(path: str) -> WebConfig:
    """The web configuration of this file. Raises ConfigError with file and line for what cannot be followed."""
    text = _read(Path(path))
    try:
        documents = read_documents(text, path)
    except UsageError as error:
        raise ConfigError(error.what, error.hint) from error
    top = documents[0] if documents else Node()
    _only(path, top, _TOP, "")
    tls = _tls(path, top)
    users = {name: _hash(path, name, node) for name, node in top.get("basic_auth_users").fields.items()}
    token_file = top.get("bearer_token_file").scalar
    tokens = _tokens(Path(path).parent / token_file) if token_file else ()
    return WebConfig(tls, users, tokens)


def _tls(path: str, top: Node) -> Tls | None:
    given = top.get("tls_server_config")
    _only(path, given, _TLS, "tls_server_config.")
    http = top.get("http_server_config")
    _only(path, http, _HTTP, "http_server_config.")
    if not given:
        return None
    folder = Path(path).parent
    names = {name: given.get(name).scalar for name in _TLS}
    if not names["cert_file"] or not names["key_file"]:
        raise ConfigError(f"{Place(path, given.line)}: tls_server_config needs both cert_file and key_file")
    auth = _CLIENT_AUTH[_choice(path, given, "client_auth_type", _CLIENT_AUTH, "NoClientCert")]
    ca_file = names["client_ca_file"]
    if auth is not ssl.CERT_NONE and not ca_file:
        raise ConfigError(f"{Place(path, given.line)}: client_auth_type needs client_ca_file")
    newest = ssl.TLSVersion.MAXIMUM_SUPPORTED
    return Tls(
        cert_file=folder / names["cert_file"],
        key_file=folder / names["key_file"],
        client_auth=auth,
        client_ca_file=folder / ca_file if ca_file else None,
        min_version=_TLS_VERSIONS[_choice(path, given, "min_version", _TLS_VERSIONS, "TLS12")],
        max_version=_TLS_VERSIONS[_choice(path, given, "max_version", _TLS_VERSIONS, "TLS13")]
        if names["max_version"]
        else newest,
        http2=_choice(path, http, "http2", ("true", "false"), "true") == "true",
    )


def _choice(path: str, node: Node, name: str, known: Mapping[str, object] | tuple[str, ...], default: str) -> str:
    given = node.get(name)
    if given.scalar is None:
        return default
    if given.scalar not in known:
        raise ConfigError(f"{Place(path, given.line)}: {name} {given.scalar!r} is not one of {', '.join(known)}")
    return given.scalar


def _only(path: str, node: Node, known: tuple[str, ...], table: str) -> None:
    """Raise for a key that is not known, and for a text where keys should be: a silent one might leave a door open."""
    if node.scalar is not None or node.elements:
        raise ConfigError(f"{Place(path, node.line)}: {table.rstrip('.') or 'the file'} must hold keys and values")
    for name, value in node.fields.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{Place(path, value.line or None)}: {table}{name} is not supported", hint)


def _hash(path: str, name: str, node: Node) -> bytes:
    if node.scalar is None or not _BCRYPT.fullmatch(node.scalar):
        # The value is not shown: it may be a password that somebody wrote where its hash belongs.
        raise ConfigError(
            f"{Place(path, node.line or None)}: the password of {name!r} is no bcrypt hash",
            "make one with: htpasswd -nBC 10 NAME",
        )
    return node.scalar.encode("ascii")


def _tokens(path: Path) -> tuple[str, ...]:
    lines = (line.strip() for line in _read(path).splitlines())
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise ConfigError(f"{path}: holds no token", "one token a line")
    if any(len(token) < SHORTEST_TOKEN or not token.isascii() for token in tokens):
        raise ConfigError(f"{path}: a token has fewer than {SHORTEST_TOKEN} ASCII characters", "openssl rand -hex 32")
    return tokens


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES // 1024} KiB")
        return data.decode()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text") from error


def _no_password() -> bytes:
    """OpenSSL asks for one on the terminal otherwise, and a daemon would wait for ever."""
    raise ValueError("the key is protected by a password")
