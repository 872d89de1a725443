"""What cards draw and how fast their memory is, by product name.

Power in W, one observation each unless a range is given: the measurement study §A.6 names the sources (S17: a paper
on idle power, S18: a public benchmark, traces of the SC24 power paper). They stand in until a GPU's own levels are
learned, with medium confidence at most. Memory bandwidth in GB/s is the vendor's data sheet figure.
"""

from __future__ import annotations

from dataclasses import dataclass

PRIOR_BUSY_SHARE = 0.35
"""Share of the way from idle to the limit at which decode is taken to be when no card is known: +-60 %
(measurement study §B.5, `p_act`)."""

PRIOR_IDLE_SHARE = 0.17
"""Idle draw with a model loaded over the limit, when no card is known: 0.13 to 0.29 in the study's table (§A.6), the
large cards near 0.17."""


@dataclass(frozen=True, slots=True)
class CardLevels:
    """What is known of one card, powers in W. None = no figure was found.

    `cold_w` is without a context, `ctx_w` with a model loaded and nothing running; `active_w` spans decode draws seen.
    """

    name: str
    limit_w: float
    cold_w: tuple[float, float]
    ctx_w: tuple[float, float]
    active_w: tuple[float, float] | None
    bandwidth_gb_s: float | None
    architecture: str
    source: str

    @property
    def busy_w(self) -> float | None:
        """Middle of the draws seen at work, in W."""
        return sum(self.active_w) / 2 if self.active_w else None


_CARDS: tuple[tuple[tuple[str, ...], CardLevels], ...] = (
    (("rtx", "pro", "6000", "blackwell"), CardLevels(
        "RTX PRO 6000 Blackwell", 600, (30, 50), (80, 89), (300, 500), 1792, "blackwell",
        "community wiki of this card: decode about 300 W, prefill 400 to 600 W; idle 80 to 89 W as reported")),
    (("b200",), CardLevels("B200", 1000, (136, 145), (187, 197), (452, 943), 8000, "blackwell", "S18, S13")),
    (("h200",), CardLevels("H200", 700, (74, 78), (119, 127), (137, 517), 4800, "hopper", "S19, S18")),
    (("h100", "pcie"), CardLevels("H100 PCIe", 350, (40, 55), (60, 90), None, 2000, "hopper", "idle guessed")),
    (("h100",), CardLevels("H100 SXM", 700, (69, 72), (121, 122), (267, 680), 3350, "hopper", "S17, S18")),
    (("a100", "pcie"), CardLevels("A100 PCIe", 300, (53, 54), (56, 80), (190, 190), 1935, "ga100", "S17, trace")),
    (("a100",), CardLevels("A100 SXM", 400, (53, 54), (78, 80), (190, 190), 2039, "ga100", "S17, trace")),
    (("v100",), CardLevels("V100", 300, (27, 33), (40, 53), None, 900, "volta", "GLM-130B #32")),
    (("l40s",), CardLevels("L40S", 350, (35, 36), (102, 103), None, 864, "ada", "S17")),
    (("l4",), CardLevels("L4", 72, (9, 19), (27, 27), None, 300, "ada", "nvidia-smi tables")),
    (("a10",), CardLevels("A10", 150, (8, 15), (42, 64), (150, 150), 600, "ga10x", "nvidia-smi tables")),
    (("a40",), CardLevels("A40", 300, (30, 30), (110, 110), None, 696, "ga10x", "open-gpu-kernel-modules #874")),
    (("t4",), CardLevels("T4", 70, (9, 9), (33, 38), None, 320, "turing", "triton-inference-server #2678")),
    (("rtx", "3090"), CardLevels("RTX 3090", 350, (24, 30), (127, 127), (419, 419), 936, "ga10x", "trace")),
    (("rtx", "4090"), CardLevels("RTX 4090", 450, (15, 25), (50, 52), (385, 435), 1008, "ada", "trace")),
    (("rtx", "5090"), CardLevels("RTX 5090", 575, (25, 45), (65, 65), None, 1792, "blackwell", "nvidia-smi tables")),
    (("rtx", "6000", "ada"), CardLevels("RTX 6000 Ada", 300, (23, 23), (23, 23), None, 960, "ada", "nvidia-smi table")),
)  # fmt: skip
"""Words that all stand in the product name -> the card. The first match counts: a variant stands before its family."""


@dataclass(frozen=True, slots=True)
class PowerLevels:
    """Draw of one GPU with a model loaded and idle, and at full work, in W. `basis`: card or prior."""

    idle_w: float
    busy_w: float
    basis: str


def card_levels(name: str) -> CardLevels | None:
    """What is known of the card with this product name ("NVIDIA H100 80GB HBM3"); None for one that is not listed."""
    words = set(name.lower().replace("-", " ").replace("_", " ").split())
    return next((card for wanted, card in _CARDS if words.issuperset(wanted)), None)


def prior_busy_w(idle_w: float, limit_w: float) -> float:
    """A guess at the draw at full work, in W: the idle one plus 0.35 of the way to the limit; +-60 %."""
    return idle_w + PRIOR_BUSY_SHARE * (limit_w - idle_w)


def power_levels(name: str, limit_w: float | None) -> PowerLevels | None:
    """Levels of a GPU by its product name and power limit in W; None when neither says anything.

    Basis `card` only where both levels of that card were seen and its limit was not lowered much: a capped card draws
    less at work. Otherwise the busy level is the prior.
    """
    card = card_levels(name)
    if card is None:
        if not limit_w:
            return None
        idle_w = PRIOR_IDLE_SHARE * limit_w
        return PowerLevels(idle_w, prior_busy_w(idle_w, limit_w), "prior")
    idle_w = sum(card.ctx_w) / 2
    limit_w = limit_w or card.limit_w
    if card.busy_w is not None and limit_w >= 0.9 * card.limit_w:
        return PowerLevels(idle_w, min(card.busy_w, limit_w), "card")
    return PowerLevels(idle_w, prior_busy_w(idle_w, limit_w), "prior")
