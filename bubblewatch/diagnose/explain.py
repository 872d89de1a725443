"""A rule's page as text and as HTML."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence

from bubblewatch.diagnose.page import Kind, Piece, Section, rule_page
from bubblewatch.diagnose.rule import Rule

_INDENT = "  "


def explain_text(rule: Rule, width: int) -> str:
    """Everything that the rule's file says, in lines of at most `width` characters (longer ones only inside a word)."""
    page = rule_page(rule)
    blocks = [f"{page.id} {page.name}: {page.title}\n{_wrapped(page.head, width)}"]
    blocks += [_block(section, width) for section in page.sections]
    return "\n\n".join(blocks)


def explain_html(rule: Rule) -> str:
    """The same as an HTML document without scripts and styles. Links to other rules are relative: `/rules/NAME`."""
    page = rule_page(rule)
    body = "".join(_html_section(section) for section in page.sections)
    head = f"<h1>{_escaped(page.name)}: {_escaped(page.title)}</h1><p>{page.id}. {_escaped(page.head)}</p>"
    return _document(page.name, f'{head}{body}<p><a href="/rules">all rules</a></p>')


def rules_html(rules: Sequence[Rule]) -> str:
    """A list of all rules by category, each with a link to its page."""
    categories = dict.fromkeys(rule.category for rule in rules)
    parts = ["<h1>Rules</h1>"]
    for category in categories:
        rows = "".join(_html_row(rule) for rule in rules if rule.category == category)
        head = "<tr><th>id</th><th>name</th><th>severity</th><th>status</th><th>meaning</th></tr>"
        parts.append(f"<h2>{_escaped(category)}</h2><table>{head}{rows}</table>")
    return _document("rules", "".join(parts))


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _block(section: Section, width: int) -> str:
    return "\n".join([section.title, *(_wrapped(_with_label(piece), width) for piece in section.pieces)])


def _with_label(piece: Piece) -> str:
    marks = {"remove": "- ", "add": "+ "}
    if piece.label in marks:
        return f"{marks[piece.label]}{piece.text}"
    return f"{piece.label}: {piece.text}" if piece.label else piece.text


def _html_section(section: Section) -> str:
    pieces = "".join(_html_piece(piece) for piece in section.pieces)
    return f"<h2>{_escaped(section.title)}</h2>{pieces}"


def _html_piece(piece: Piece) -> str:
    text = _escaped(piece.text)
    match piece.kind:
        case Kind.CODE:
            text = f"<code>{text}</code>"
        case Kind.LINK:
            text = f'<a href="{text}" rel="noreferrer">{text}</a>' if piece.text.startswith("https://") else text
        case Kind.RULE:
            text = f'<a href="/rules/{text}">{text}</a>'
        case _:
            pass
    label = f"<b>{_escaped(piece.label)}</b> " if piece.label else ""
    return f"<p>{label}{text}</p>"


def _html_row(rule: Rule) -> str:
    name = _escaped(rule.name)
    cells = (_escaped(rule.id), f'<a href="/rules/{name}">{name}</a>', rule.severity.word, str(rule.status))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (*cells, _escaped(rule.title))) + "</tr>"


def _document(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><title>{_escaped(title)} - bubblewatch</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)


def find(rules: Sequence[Rule], name: str) -> Rule | None:
    """The rule with this name or id, in any spelling of case; None when there is none."""
    wanted = name.strip().lower()
    return next((rule for rule in rules if wanted in (rule.name, rule.id.lower())), None)
