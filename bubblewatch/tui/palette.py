"""Colours: five palettes, each a Textual theme and a look for every ink.

The duty colours run from dark to light (in the light palette from light to dark), so that they can be told apart by
brightness alone. `safe` keeps to the eight colours of Okabe and Ito, which people with any common colour blindness can
tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rich.style import Style
from textual.theme import Theme

from bubblewatch.tui.ink import DUTY_INKS, TRACK_INKS, Ink


@dataclass(frozen=True, slots=True)
class Palette:
    """One set of colours. `styles` has every ink; `name` is what people choose it by."""

    name: str
    about: str
    theme: Theme
    styles: Mapping[Ink, Style]


@dataclass(frozen=True, slots=True)
class _Colours:
    """The colours of one palette, as `#rrggbb`; `duty` from idle to busy."""

    ground: str
    raised: str
    text: str
    faint: str
    good: str
    warn: str
    bad: str
    name: str
    power: str
    track: str
    duty: tuple[str, str, str, str, str]
    parts: tuple[str, str, str, str, str, str]
    dark: bool = True


_NIGHT = _Colours(
    ground="#11151c",
    raised="#1d2430",
    text="#d5dbe5",
    faint="#7f8a9b",
    good="#7ecb8f",
    warn="#e8b75a",
    bad="#f0736a",
    name="#7cb7ff",
    power="#b79bf0",
    track="#1e2632",
    duty=("#5b6a8c", "#3f7fb5", "#2fa3a0", "#4fbf7a", "#98e86b"),
    parts=("#6cc86a", "#c9913c", "#6b7894", "#39434f", "#5b7fc7", "#8a5a8f"),
)
_DAY = _Colours(
    ground="#fbfaf7",
    raised="#ece9e1",
    text="#23272f",
    faint="#6b7280",
    good="#1d7a3a",
    warn="#935f00",
    bad="#b3261e",
    name="#1556b0",
    power="#6a3fb5",
    track="#e9e6de",
    duty=("#b9c0cc", "#7fa8d0", "#2b8f9a", "#1f7a46", "#0d4a2a"),
    parts=("#1f7a46", "#c07a12", "#a9b1be", "#dcdcd6", "#4f74c4", "#9b6aa0"),
    dark=False,
)
_CONTRAST = _Colours(
    ground="#000000",
    raised="#2a2a2a",
    text="#ffffff",
    faint="#c8c8c8",
    good="#5dff7f",
    warn="#ffd84a",
    bad="#ff6b6b",
    name="#6fd3ff",
    power="#e0b0ff",
    track="#303030",
    duty=("#7d7d7d", "#4aa3ff", "#33e0e0", "#4dff88", "#d2ff5a"),
    parts=("#7dff6b", "#ffb02e", "#8c8c8c", "#4a4a4a", "#5f9bff", "#e07dff"),
)
_SAFE = _Colours(
    ground="#12161c",
    raised="#1f2630",
    text="#e1e4ea",
    faint="#8e98a8",
    good="#56b4e9",
    warn="#e69f00",
    bad="#ff8442",
    name="#56b4e9",
    power="#cc79a7",
    track="#202833",
    duty=("#5d687c", "#0b7cc0", "#56b4e9", "#9ad6f7", "#eef8ff"),
    parts=("#56b4e9", "#e69f00", "#6a7488", "#2b323d", "#0072b2", "#cc79a7"),
)


def _theme(name: str, colours: _Colours) -> Theme:
    return Theme(
        name=f"bubblewatch-{name}",
        primary=colours.name,
        secondary=colours.faint,
        accent=colours.name,
        foreground=colours.text,
        background=colours.ground,
        surface=colours.ground,
        panel=colours.raised,
        success=colours.good,
        warning=colours.warn,
        error=colours.bad,
        dark=colours.dark,
        variables={"block-cursor-background": colours.name, "block-cursor-foreground": colours.ground},
    )


def _coloured(name: str, about: str, colours: _Colours) -> Palette:
    def ink(colour: str, *, bold: bool = False) -> Style:
        return Style(color=colour, bgcolor=colours.ground, bold=bold)

    def badge(colour: str) -> Style:
        return Style(color=colours.ground, bgcolor=colour, bold=True)

    def track(colour: str) -> Style:
        return Style(color=colour, bgcolor=colours.track)

    parts = (Ink.PART_ACTIVE, Ink.PART_LOW, Ink.PART_ABSENT, Ink.PART_NOBODY, Ink.PART_STARTING, Ink.PART_UNKNOWN)
    styles = {
        Ink.PLAIN: ink(colours.text),
        Ink.STRONG: ink(colours.text, bold=True),
        Ink.FAINT: ink(colours.faint),
        Ink.GOOD: ink(colours.good, bold=True),
        Ink.WARN: ink(colours.warn, bold=True),
        Ink.BAD: ink(colours.bad, bold=True),
        Ink.NAME: ink(colours.name, bold=True),
        Ink.KEY: ink(colours.name),
        Ink.BADGE_GOOD: badge(colours.good),
        Ink.BADGE_WARN: badge(colours.warn),
        Ink.BADGE_BAD: badge(colours.bad),
        Ink.BADGE_NEUTRAL: badge(colours.faint),
        Ink.ADDED: ink(colours.good),
        Ink.REMOVED: ink(colours.bad),
        Ink.POWER: ink(colours.power),
        Ink.CAUTION: ink(colours.warn),
        Ink.RULE: ink(colours.track),
        Ink.TRACK: track(colours.ground),
        Ink.TRACK_POWER: track(colours.power),
        **{one: ink(colour) for one, colour in zip(DUTY_INKS, colours.duty, strict=True)},
        **{one: track(colour) for one, colour in zip(TRACK_INKS, colours.duty, strict=True)},
        **{one: ink(colour) for one, colour in zip(parts, colours.parts, strict=True)},
    }
    return Palette(name, about, _theme(name, colours), MappingProxyType(styles))


def _mono() -> Palette:
    """No colour at all: weight and reversal, on whatever the terminal's own colours are."""
    plain, bold, dim = Style(), Style(bold=True), Style(dim=True)
    badge = Style(bold=True, reverse=True)
    looks = {
        Ink.STRONG: bold, Ink.GOOD: bold, Ink.WARN: bold, Ink.BAD: bold, Ink.NAME: bold, Ink.KEY: bold,
        Ink.FAINT: dim, Ink.BADGE_GOOD: badge, Ink.BADGE_WARN: badge, Ink.BADGE_BAD: badge, Ink.BADGE_NEUTRAL: badge,
        Ink.ADDED: bold, Ink.REMOVED: bold, Ink.PART_ABSENT: dim, Ink.PART_NOBODY: dim, Ink.RULE: dim,
    }  # fmt: skip
    theme = _theme("mono", _CONTRAST)
    return Palette("mono", "no colours", theme, MappingProxyType({one: looks.get(one, plain) for one in Ink}))


PALETTES: Mapping[str, Palette] = MappingProxyType(
    {
        palette.name: palette
        for palette in (
            _coloured("night", "dark", _NIGHT),
            _coloured("day", "light", _DAY),
            _coloured("contrast", "black and bright, for poor light and poor screens", _CONTRAST),
            _coloured("safe", "dark, for every kind of colour blindness", _SAFE),
            _mono(),
        )
    }
)
"""Name -> palette, the usual one first."""
