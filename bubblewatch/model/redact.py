"""Secrets taken out of text, arguments and environments before anything else sees them.

Two ways to know a secret: the name it is given to (`api_key=...`, `--hf-token ...`), and its own shape (`hf_...`,
`sk-...`, `Bearer ...`, a JSON web token). Names are read word by word, so that `tokenizer_path` and `#token` stay.
Every function takes time linear in its input, because prompts reach the log and strangers write prompts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import pairwise

REDACTED = "<redacted>"
"""What stands where a secret stood. It never matches a pattern below, so redacting twice changes nothing."""


class _Secrecy(Enum):
    """How much a name says about its value."""

    NONE = 0
    PERHAPS = 1
    """Only a long random-looking value is taken: `token_map=...`, `cache_key=...`."""
    LIKELY = 2
    """Taken unless it is a plain number (`#token: 55`) or prose (`unexpected token: end`)."""
    CERTAIN = 3


_SHOWN_BY_NAME = (_Secrecy.LIKELY, _Secrecy.CERTAIN)
_PLAIN_NAME = re.compile(r"[\w.-]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CERTAIN_WORDS = re.compile(
    r"passwords?|passwd|passphrase|passcode|secrets?|credentials?|authorization|cookie|jwt"
    r"|(?:api|auth|access|secret|private|hf)(?:key|token)s?"
)
_CERTAIN_BEFORE = re.compile(  # what stands before `key` or `token` when it can only be a secret
    r"api|access|auth|admin|secret|private|bearer|refresh|session|security|encryption|signing|master|hf|hub"
    r"|huggingface|github|gitlab|wandb|openai|anthropic|azure|aws|ngc|nvidia"
)
_HARMLESS_BEFORE = re.compile(  # `eos_token='</s>'`, `think_end_token=...`, `#new-token: 17`, `cache_key=...`
    r"eos|bos|pad|unk|sep|cls|mask|end|start|stop|image|audio|video|special|think|new|cached|full|swa|gpu|pending"
    r"|cache|sort|primary|foreign|routing|partition|label|public"
)
_SWITCH = re.compile(r"allow|enable|disable|require")  # `--allow-credentials` takes no value
_ABOUT = re.compile(r"file|path|dir|name|type|mode|length|provider|header|policy|url")  # `--api-key-file`

_SECRET_OPTIONS = (  # option, and the shortest abbreviation that argparse can take for it beside its neighbours
    ("api-key", "ap"),  # SGLang, vLLM, llama.cpp
    ("admin-api-key", "adm"),  # SGLang
    ("hf-token", "hf-t"),  # vLLM, llama.cpp
    ("ssl-keyfile-password", "ssl-keyfile-p"),  # SGLang
)
_SHORT_OPTIONS = frozenset({"-hft"})  # llama.cpp's --hf-token

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"(?:hf|api_org|npm|gsk|r8)_[A-Za-z0-9]{16,}"  # Hugging Face, npm, Groq, Replicate
    r"|(?:sk|rk|pk)[-_](?=[\w-]{16})[\w-]+"  # OpenAI, Anthropic, Stripe
    r"|(?:nvapi|glpat|xai|pplx)-[\w-]{16,}"  # NVIDIA, GitLab, xAI, Perplexity
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|xox[abeprs]-[\w-]{10,}"  # Slack
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"  # AWS key ids
    r"|AIza[\w-]{30,}|ya29\.[\w-]{16,}"  # Google
    r"|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]+)*"  # JSON web token: base64 of `{"`
    r")"
)
_BEARER = re.compile(r"([bB]earer[ \t]+|BEARER[ \t]+)(?!(?i:auth|token|scheme))[\w.~+/=-]{6,}")
_PEM = re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?!<redacted>)[^-]*")
_USER_INFO = re.compile(r"""(?<=://)(?:[^\s/"']+|[^\s/"':]{0,99}:(?!\d{1,5}/)[^\s"']{1,256})(?=@)""")

_NAME = re.compile(r"""(?<![\w.-])(?:-[\w.-]++|[\w.-]++(?=\\*["']?[ \t]{0,4}[=:]))""")  # an option, or what has a value
_HINT = re.compile(  # one cheap look at a name before its words are read; written so that the scan stays fast
    r"[kKtTsSpPcCaAjJ-](?:ey|EY|oken|OKEN|ecret|ECRET|ass|ASS|wd|WD|redential|REDENTIAL|uth|UTH|ookie|OOKIE|wt|WT|ig"
    r"|a[dp]|hf)"
)
_IS = re.compile(r"""\\*["']?[ \t]{0,4}(?:=>|=(?!=)|:(?![:/]))[ \t]{0,4}""")
_SPACE = re.compile(
    r"""(?:\\*["']?,?(?:[ \t]|\\\r?\n)+|\\*["'],(?=\\*["']))(?=[^\s-]|-[^\s"'-][^\s"']{10})"""  # `--api-key X`, a list
)
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|digest|negotiate|apikey)[ \t]+")
_OPENING = re.compile(r"(?:[A-Za-z_][\w.]*)?[\[({]")
_BARE = re.compile(r"""(?:[^\s"'`\x00,&]++|,(?![ \t]|[\w.-]+=)|&(?![\w.-]+=))+""")
_QUOTED = re.compile(r"""\\*["']""")
_BRACKET_OR_STRING = re.compile(r"""[\[({]|[\])}]|"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'""", re.DOTALL)
_HARMLESS_VALUE = re.compile(r"(?i)|none|null|nil|true|false|<redacted>|\*+|\$\w+|\$\{\w+\}|\[\]|\(\)|\{\}")
_REFERENCE = re.compile(r"\$\w+(?![^\s\"',;])|\$\{\w+\}(?![^\s\"',;])")  # a shell variable gives nothing away
_NUMBER = re.compile(r"[+-]?\d{1,10}(?:\.\d+)?%?|nan")
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[\w+=-]{20,}")


def is_secret_name(name: str) -> bool:
    """True when a value given to `name` must not be shown: an option, field, variable or header, in any spelling."""
    return _secrecy(name) in _SHOWN_BY_NAME


def redact_text(text: str) -> str:
    """`text` with every secret that can be recognised replaced by `<redacted>`; all else is unchanged.

    A Python repr or JSON document stays one: quotes around the secret are kept, and several secrets
    in brackets become one string.
    """
    text = _SHAPES.sub(REDACTED, text)
    text = _BEARER.sub(lambda found: found[1] + REDACTED, text)
    text = _PEM.sub(lambda found: found[1] + REDACTED, text)
    return _redact_named(_USER_INFO.sub(_without_user, text))


def redact_argv(argv: Iterable[str]) -> tuple[str, ...]:
    """The same words in the same number, with secret values replaced.

    Knows `--api-key X`, several values after it (vLLM takes a list), `--api-key=X`, argparse abbreviations and
    `NAME=VALUE` words; every other word goes through `redact_text`.
    """
    result: list[str] = []
    taking = 0
    for word in argv:
        if taking and not _starts_option(word):
            result.append(word if _HARMLESS_VALUE.fullmatch(word) else REDACTED)
            taking -= 1
            continue
        name, equals, value = word.partition("=")
        secrecy = _secrecy(name) if _PLAIN_NAME.fullmatch(name) else _Secrecy.NONE
        taking = _values_taken(name) if not equals and word.startswith("-") and secrecy in _SHOWN_BY_NAME else 0
        is_command = " -" in value  # bash -c "HF_TOKEN=... python -m ... --option"
        if equals and _is_secret_value(secrecy, value) and not is_command:
            result.append(f"{name}={REDACTED}")
        else:
            result.append(redact_text(word))
    return tuple(result)


def redact_env(environment: Mapping[str, str]) -> dict[str, str]:
    """The same variables, with secret values replaced."""
    return {
        name: REDACTED if _is_secret_value(_secrecy(name), value) else redact_text(value)
        for name, value in environment.items()
    }


def _secrecy(name: str) -> _Secrecy:
    if name.startswith("-") and _is_secret_option(name):
        return _Secrecy.CERTAIN
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or _SWITCH.fullmatch(words[0]) or _ABOUT.fullmatch(words[-1]):
        return _Secrecy.NONE
    if any(_CERTAIN_WORDS.fullmatch(word) for word in words) or (words[-1] == "pwd" and len(words) > 1):
        return _Secrecy.CERTAIN
    for before, word in pairwise(words):
        if word in ("key", "token", "keys", "tokens") and _CERTAIN_BEFORE.fullmatch(before):
            return _Secrecy.CERTAIN
    if words[-1] in ("key", "token", "auth") and (len(words) == 1 or not _HARMLESS_BEFORE.fullmatch(words[-2])):
        return _Secrecy.LIKELY
    return _Secrecy.PERHAPS if "key" in words or "token" in words else _Secrecy.NONE


def _is_secret_option(option: str) -> bool:
    if option in _SHORT_OPTIONS:
        return True
    plain = option.lstrip("-").replace("_", "-")
    return option.startswith("--") and any(
        full.startswith(plain) and plain.startswith(shortest) for full, shortest in _SECRET_OPTIONS
    )


def _starts_option(word: str) -> bool:
    """True for the next option; a long word behind a single dash may be a key (llama.cpp takes any word as one)."""
    return word.startswith("--") or (word.startswith("-") and len(word) < 12)


def _values_taken(option: str) -> int:
    """How many words behind a secret option are its values: every one for a list of API keys (vLLM), else one."""
    return sys.maxsize if option.lstrip("-").startswith("ap") else 1


def _is_secret_value(secrecy: _Secrecy, value: str) -> bool:
    if secrecy is _Secrecy.NONE or _HARMLESS_VALUE.fullmatch(value):
        return False
    if secrecy is _Secrecy.LIKELY:
        return not _NUMBER.fullmatch(value)
    return secrecy is _Secrecy.CERTAIN or _RANDOM.fullmatch(value) is not None


def _redact_named(text: str) -> str:
    parts: list[str] = []
    done = 0
    found = _NAME.search(text)
    while found is not None:
        start, end, replacement = _named_value(text, found)
        if replacement is not None:
            parts += (text[done:start], replacement)
            done = end
        found = _NAME.search(text, end)
    parts.append(text[done:])
    return "".join(parts)


def _named_value(text: str, name: re.Match[str]) -> tuple[int, int, str | None]:
    """Where the value of `name` lies and what takes its place; None when it stays, then scan on from the end."""
    if not _HINT.search(name[0]):
        return name.end(), name.end(), None
    separator = _IS.match(text, name.end())
    if separator is None and name[0].startswith("-"):
        separator = _SPACE.match(text, name.end())
    if separator is None:
        return name.end(), name.end(), None
    before = text[name.start() - 1] if name.start() else ""
    is_query = before in ("?", "&") and name[0].lower() in ("key", "token", "sig", "signature", "auth")
    secrecy = _Secrecy.CERTAIN if is_query else _secrecy(name[0])
    if secrecy is _Secrecy.NONE:
        return name.end(), name.end(), None
    start = separator.end()
    scheme = _SCHEME.match(text, start)
    start = scheme.end() if scheme and secrecy is _Secrecy.CERTAIN else start
    is_prose = separator[0].startswith(":") and secrecy is _Secrecy.LIKELY
    is_bare_key = name[0].lower() == "key" and secrecy is _Secrecy.LIKELY
    weight = _Secrecy.PERHAPS if is_prose or is_bare_key else secrecy
    quoted_name = _QUOTED.match(separator[0])
    outer_quote = before if before in ("'", '"') and separator[0].startswith("=") else ""
    start, end, quote = _value_span(text, start, quoted_name[0] if quoted_name else "", outer_quote)
    if not _is_secret_value(weight, text[start:end]):
        return start, start, None
    return start, end, f"{quote}{REDACTED}{quote}"


def _value_span(text: str, start: int, name_quote: str, outer_quote: str) -> tuple[int, int, str]:
    """Start and end of the value, and the quotes that its replacement needs to keep a document readable."""
    quoted = _QUOTED.match(text, start)
    if quoted:
        return quoted.end(), _closing_quote(text, quoted.end(), quoted[0]), ""
    opening = _OPENING.match(text, start)
    if opening:
        end = _closing_bracket(text, opening.end() - 1)
        return start, end, name_quote or ('"' if '"' in text[start:end] and "'" not in text[start:end] else "'")
    end = _bare_end(text, start)
    is_plain = _NUMBER.fullmatch(text, start, end) or _HARMLESS_VALUE.fullmatch(text, start, end)
    if outer_quote and not is_plain:  # Environment="API_KEY=two words"
        return start, _closing_quote(text, start, outer_quote), ""
    return start, end, name_quote


def _bare_end(text: str, start: int) -> int:
    """End of a value without quotes around it, less the punctuation that belongs to what stands around it."""
    reference = _REFERENCE.match(text, start)
    if reference:
        return reference.end()
    end = start
    bare = _BARE.match(text, end)
    while bare:
        end = bare.end()
        inner = _QUOTED.match(text, end)
        if not inner or bare[0][-1] not in "=:([{":
            break
        end = min(len(text), _closing_quote(text, inner.end(), inner[0]) + len(inner[0]))
        bare = _BARE.match(text, end)  # credentials: Login(key='...')
    return start + len(text[start:end].rstrip(",;)]}\\"))


def _closing_quote(text: str, start: int, quote: str) -> int:
    """Index of the quote that ends the string, which carries as many backslashes as the one that began it."""
    at = text.find(quote, start)
    while at > start and text[at - 1] == "\\":
        at = text.find(quote, at + len(quote))
    return len(text) if at < 0 else at


def _closing_bracket(text: str, start: int) -> int:
    """Index behind the bracket that closes the one at `start`; the end of the text when none does."""
    depth = 0
    for found in _BRACKET_OR_STRING.finditer(text, start):
        if found[0] in "[({":
            depth += 1
        elif found[0] in "])}":
            depth -= 1
            if depth == 0:
                return found.end()
    return len(text)


def _without_user(found: re.Match[str]) -> str:
    """A user's name alone stays (`ssh://git@host`) unless it is long enough to be a token."""
    return REDACTED if ":" in found[0] or len(found[0]) >= 16 else found[0]
