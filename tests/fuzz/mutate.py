"""Mutations of real texts: what a truncated file, a hostile client or another version may send."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

ODD = (
    *(
        "",
        "\0",
        "\n",
        "\r\n",
        "\\",
        '"',
        "'",
        "`",
        "$",
        "${",
        "$(",
        "{",
        "}",
        "[",
        "]",
        ":",
        "=",
        ",",
        "#",
        "--",
        "-",
        " ",
    ),
    *(
        "%",
        "%s",
        "\x1b[31m",
        "\ufeff",
        "\ud800",
        "é",
        "９",
        "²",
        "0x10",
        "1e999",
        "-1",
        "9" * 30,
        "NaN",
        "inf",
        "1.2.3",
    ),
    *("null", "true", "&a", "*a", "<<:", "!!python/object:os.system", "../" * 8, "A" * 3000, "((((((((", "\t" * 200),
)
"""Pieces at which parsers stumble."""

_edit = st.tuples(
    st.sampled_from(["cut", "double", "insert", "swap", "drop line", "repeat line"]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from(ODD),
)


def _edited(text: str, edit: tuple[str, float, float, str]) -> str:
    how, first, second, piece = edit
    low, high = sorted((round(first * len(text)), round(second * len(text))))
    match how:
        case "cut":
            return text[:low] + text[high:]
        case "double":
            return text[:high] + text[low:high][:2000] + text[high:]
        case "insert":
            return text[:low] + piece + text[low:]
        case "swap":
            return text[:low] + piece + text[high:]
        case _:
            lines = text.split("\n")
            at = min(round(first * len(lines)), len(lines) - 1)
            kept = lines[at : at + 1] * (3 if how == "repeat line" else 0)
            return "\n".join([*lines[:at], *kept, *lines[at + 1 :]])


def mutations(seeds: Sequence[str]) -> st.SearchStrategy[str]:
    """One of `seeds` with a few edits; now and then any text at all."""

    def apply(drawn: tuple[str, list[tuple[str, float, float, str]]]) -> str:
        text, edits = drawn
        for edit in edits:
            text = _edited(text, edit)
        return text[:20_000]

    return st.tuples(st.sampled_from(seeds), st.lists(_edit, max_size=5)).map(apply) | st.text(max_size=300)
