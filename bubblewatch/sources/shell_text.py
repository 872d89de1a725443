"""Shell text to commands: enough of the POSIX shell to read how a server is launched. Nothing is ever executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field

from bubblewatch.model.errors import Place, UsageError

ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<plus>\+?)=(?P<value>.*)", re.DOTALL)
"""A word that sets a variable when it stands before the command: `CUDA_VISIBLE_DEVICES=0,1`."""

_VARIABLE = re.compile(
    r"\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?:\[@\]|\[\*\])?(?P<rest>:?[-+=?][^}]*)?\})"
)
_PLACEHOLDER = re.compile(r"<[^<>\n]+>")
_REDIRECTION = re.compile(r"\d*(?:&>>?|>>?&?|<<<|<&?)\d*-?")
_OPERATOR = re.compile(r"&&|\|\||;;|[;&|()]")
_ESCAPED_IN_DOUBLE_QUOTES = '$`"\\'
_PROMPTS = ("$", "#", ">", "%")


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command after quotes and known variables are resolved, and the 1-based line on which it starts.

    `file` names the file it stands in when that is not the text as a whole (a unit's drop-in).
    """

    text: str
    line: int
    quoted: bool = False
    file: str = ""


@dataclass(slots=True)
class _Scanner:
    """State of one pass over a text. Words of the command in hand gather in `words`."""

    text: str
    name: str
    first_line: int
    variables: MutableMapping[str, str]
    position: int = 0
    words: list[Word] = field(default_factory=list)

    def line_at(self, position: int) -> int:
        return self.first_line + self.text.count("\n", 0, position)


def commands_of(
    text: str, name: str, variables: MutableMapping[str, str] | None = None, first_line: int = 1
) -> Iterator[tuple[Word, ...]]:
    """The simple commands of shell `text`, in order, each as its words; never an empty one.

    Redirections are left out, operators and line ends separate commands, a backslash joins lines. `$NAME` becomes its
    value when `variables` has it and stays as written otherwise; the caller may add to `variables` between commands.
    Raises UsageError with the line (of `name`) for a quote that never ends. Here-documents are not understood.
    """
    scanner = _Scanner(text.replace("\r\n", "\n"), name, first_line, variables if variables is not None else {})
    while scanner.position < len(scanner.text):
        if _step(scanner) and scanner.words:
            yield tuple(scanner.words)
            scanner.words = []
    if scanner.words:
        yield tuple(scanner.words)


def _step(scanner: _Scanner) -> bool:
    """Take one token; True when it ends the command in hand."""
    text, position = scanner.text, scanner.position
    char = text[position]
    if char == "\n":
        scanner.position += 1
        return not _inside_array(scanner.words)
    if char.isspace():
        scanner.position += 1
        return False
    if text.startswith("\\\n", position):
        scanner.position += 2
        return False
    if char == "#" and not _is_prompt(scanner):
        end = text.find("\n", position)
        scanner.position = len(text) if end < 0 else end
        return False
    if _is_prompt(scanner):
        scanner.position += 1
        return False
    if not _PLACEHOLDER.match(text, position) and (redirection := _REDIRECTION.match(text, position)):
        _skip_redirection(scanner, redirection)
        return False
    if operator := _OPERATOR.match(text, position):
        return _take_operator(scanner, operator.group())
    _take_word(scanner)
    return False


def _is_prompt(scanner: _Scanner) -> bool:
    """Whether a sign at the start of a line is the prompt of a pasted terminal: `$ python -m …`."""
    text, position = scanner.text, scanner.position
    at_start = not scanner.words and text[text.rfind("\n", 0, position) + 1 : position].strip() == ""
    return (
        at_start and text[position] in _PROMPTS and text[position] != "#" and text[position + 1 : position + 2] == " "
    )


def _inside_array(words: list[Word]) -> bool:
    """Whether an array such as `ARGS=(` was opened and not closed: line ends do not end it."""
    opened = [word.text for word in words if not word.quoted and word.text in {"=(", ")"}]
    return bool(opened) and opened[-1] == "=("


def _take_operator(scanner: _Scanner, operator: str) -> bool:
    scanner.position += len(operator)
    last = scanner.words[-1] if scanner.words else None
    if operator == "(" and last and not last.quoted and re.fullmatch(r"[A-Za-z_]\w*\+?=", last.text):
        scanner.words.append(Word("=(", last.line))
        return False
    if operator == ")" and _inside_array(scanner.words):
        _close_array(scanner)
    return True


def _close_array(scanner: _Scanner) -> None:
    """Turn `NAME=`, `=(`, a, b into one assignment whose value is the words of the array."""
    start = max(index for index, word in enumerate(scanner.words) if word.text == "=(" and not word.quoted)
    head = scanner.words[start - 1]
    items = " ".join(word.text for word in scanner.words[start + 1 :])
    text = head.text.replace("+=", "+= ") + items
    scanner.words = [*scanner.words[: start - 1], Word(text, head.line)]


def _skip_redirection(scanner: _Scanner, found: re.Match[str]) -> None:
    """Pass over `2>&1` and over `> file` together with its target."""
    scanner.position = found.end()
    if re.search(r"&(?:\d+|-)$", found.group()):
        return
    kept = scanner.words
    scanner.words = []
    while scanner.position < len(scanner.text) and scanner.text[scanner.position] in " \t":
        scanner.position += 1
    if scanner.position < len(scanner.text) and scanner.text[scanner.position] != "\n":
        _take_word(scanner)
    scanner.words = kept


def _take_word(scanner: _Scanner) -> None:
    """Add the word that starts here; an unquoted variable may give several words or none."""
    text, start = scanner.text, scanner.position
    if placeholder := _PLACEHOLDER.match(text, start):
        scanner.words.append(Word(placeholder.group(), scanner.line_at(start)))
        scanner.position = placeholder.end()
        return
    parts: list[tuple[str, bool]] = []
    while scanner.position < len(text):
        char = text[scanner.position]
        if char.isspace() or char in ";&|()<>":
            break
        parts.append(_READERS.get(char, _read_plain)(scanner))
    _add_fields(scanner, parts, scanner.line_at(start))


def _add_fields(scanner: _Scanner, parts: list[tuple[str, bool]], line: int) -> None:
    """Join the parts of a word; white space in an unquoted variable's value splits it, as the shell does."""
    whole = "".join(part for part, _ in parts)
    if ASSIGNMENT.fullmatch(whole) or all(quoted or not any(map(str.isspace, part)) for part, quoted in parts):
        if whole or any(quoted for _, quoted in parts):
            scanner.words.append(Word(whole, line, any(quoted for _, quoted in parts)))
        return
    marked = "".join(
        part if not quoted else re.sub(r"\s", lambda m: f"\0{ord(m.group()):x}\0", part) for part, quoted in parts
    )
    for word in marked.split():
        scanner.words.append(Word(re.sub("\0([0-9a-f]+)\0", lambda m: chr(int(m.group(1), 16)), word), line, True))


def _read_plain(scanner: _Scanner) -> tuple[str, bool]:
    found = re.compile(r"[^\s;&|()<>'\"\\$`]+").match(scanner.text, scanner.position)
    end = found.end() if found else scanner.position + 1
    part = scanner.text[scanner.position : end]
    scanner.position = end
    return part, False


def _read_backslash(scanner: _Scanner) -> tuple[str, bool]:
    escaped = scanner.text[scanner.position + 1 : scanner.position + 2]
    scanner.position += 2
    return ("", False) if escaped == "\n" else (escaped, bool(escaped))


def _read_single_quotes(scanner: _Scanner) -> tuple[str, bool]:
    end = scanner.text.find("'", scanner.position + 1)
    if end < 0:
        raise _unbalanced(scanner, "'", scanner.position)
    part = scanner.text[scanner.position + 1 : end]
    scanner.position = end + 1
    return part, True


def _read_double_quotes(scanner: _Scanner) -> tuple[str, bool]:
    text, start = scanner.text, scanner.position
    scanner.position += 1
    parts: list[str] = []
    while scanner.position < len(text) and text[scanner.position] != '"':
        char = text[scanner.position]
        if char == "$":
            parts.append(_read_variable(scanner)[0])
            continue
        if char == "\\" and (following := text[scanner.position + 1 : scanner.position + 2]):
            if following in _ESCAPED_IN_DOUBLE_QUOTES:
                parts.append(following)
            elif following != "\n":
                parts.append(char + following)
            scanner.position += 2
            continue
        parts.append(char)
        scanner.position += 1
    if scanner.position >= len(text):
        raise _unbalanced(scanner, '"', start)
    scanner.position += 1
    if '[@]}"' in text[start : scanner.position]:
        return "".join(parts), False  # "${ARGS[@]}" gives one word for each element
    return "".join(parts), True


def _read_variable(scanner: _Scanner) -> tuple[str, bool]:
    """A known variable's value; the text as written when it is not known."""
    if scanner.text.startswith("$(", scanner.position):
        return _read_substitution(scanner), True
    found = _VARIABLE.match(scanner.text, scanner.position)
    if found is None:
        scanner.position += 1
        return "$", True
    scanner.position = found.end()
    value = scanner.variables.get(found["name"] or found["braced"])
    if value is not None:
        return value, False
    rest = found["rest"] or ""
    if rest.lstrip(":").startswith(("-", "=")):
        return rest.lstrip(":")[1:].strip("\"'"), False
    return found.group(), True


def _read_substitution(scanner: _Scanner) -> str:
    """`$(command)` as written: what it gives is not known here."""
    start, depth = scanner.position, 0
    for found in re.compile(r"[()]").finditer(scanner.text, start):
        depth += 1 if found.group() == "(" else -1
        if depth == 0:
            scanner.position = found.end()
            return scanner.text[start : found.end()]
    raise _unbalanced(scanner, "$(", start)


def _read_backquotes(scanner: _Scanner) -> tuple[str, bool]:
    end = scanner.text.find("`", scanner.position + 1)
    if end < 0:
        raise _unbalanced(scanner, "`", scanner.position)
    part = scanner.text[scanner.position : end + 1]
    scanner.position = end + 1
    return part, True


def _unbalanced(scanner: _Scanner, quote: str, position: int) -> UsageError:
    place = Place(scanner.name, scanner.line_at(position))
    return UsageError(
        f"{place}: the quote {quote} that opens here is never closed", "close it, or give the command in a file"
    )


_READERS: dict[str, Callable[[_Scanner], tuple[str, bool]]] = {
    "\\": _read_backslash,
    "'": _read_single_quotes,
    '"': _read_double_quotes,
    "$": _read_variable,
    "`": _read_backquotes,
}
