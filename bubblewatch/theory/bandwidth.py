"""Memory bandwidth by product name, for cards and variants beside those whose power is known."""

from __future__ import annotations

from bubblewatch.theory.cards import card_levels

_VARIANTS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("h100", "nvl"), 3938),
    (("gh200", "480gb"), 4000),
    (("gh200",), 4900),
    (("gb300",), 8000),
    (("gb200",), 8000),
    (("b300",), 8000),
    (("h800", "pcie"), 2039),
    (("h800",), 3350),
    (("h20", "3e"), 4800),
    (("h20",), 4000),
    (("a100", "40gb"), 1555),
    (("a800", "40gb"), 1555),
    (("a800", "pcie"), 1935),
    (("a800",), 2039),
    (("a30",), 933),
    (("a10g",), 600),
    (("a16",), 200),
    (("a2",), 200),
    (("l40",), 864),
    (("l20",), 864),
    (("v100s",), 1134),
    (("gb10",), 273),
    (("rtx", "pro", "5000", "blackwell"), 1344),
    (("rtx", "pro", "4500", "blackwell"), 896),
    (("rtx", "pro", "4000", "blackwell"), 672),
    (("rtx", "5000", "ada"), 576),
    (("rtx", "4500", "ada"), 432),
    (("rtx", "4000", "ada"), 360),
    (("rtx", "a6000"), 768),
    (("rtx", "a5500"), 768),
    (("rtx", "a5000"), 768),
    (("rtx", "a4500"), 640),
    (("rtx", "a4000"), 448),
    (("rtx", "5080"), 960),
    (("rtx", "5070", "ti"), 896),
    (("rtx", "5070"), 672),
    (("rtx", "5060", "ti"), 448),
    (("rtx", "4080", "super"), 736),
    (("rtx", "4080"), 717),
    (("rtx", "4070", "ti", "super"), 672),
    (("rtx", "4070"), 504),
    (("rtx", "4060", "ti"), 288),
    (("rtx", "3090", "ti"), 1008),
    (("rtx", "3080", "ti"), 912),
    (("rtx", "3080"), 912),
    (("rtx", "3060"), 360),
    (("rtx", "2080", "ti"), 616),
)
"""Words that all stand in the product name -> GB/s by the vendor's data sheet. The first match counts. Where two boards
share a name (3080 with 10 and 12 GB, RTX PRO 6000 of the workstation and the server) the faster or the usual one is
given; a limit that is a little high stays a limit."""

_SLOWER = frozenset({"laptop", "mobile", "mig"})
"""Words of names whose memory is slower than that of the card they are called after."""

GB = 1e9
"""Data sheets count in powers of ten."""


def bandwidth_bytes_per_s(name: str) -> float | None:
    """Peak memory bandwidth in bytes per second of the card with this product name ("NVIDIA H100 80GB HBM3").

    None for a name that is not listed, for a laptop's part, and for a slice of a card (MIG).
    """
    words = set(name.lower().replace("-", " ").replace("_", " ").split())
    if words & _SLOWER:
        return None
    listed = next((speed for wanted, speed in _VARIANTS if words.issuperset(wanted)), None)
    if listed is None:
        card = card_levels(name)
        listed = card.bandwidth_gb_s if card is not None else None
    return None if listed is None else listed * GB
