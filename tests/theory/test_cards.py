"""What is known of cards by their product names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.theory.cards import card_levels, power_levels, prior_busy_w


@pytest.mark.parametrize(
    ("product", "card", "limit_w"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell", 600),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell", 600),
        ("NVIDIA H100 80GB HBM3", "H100 SXM", 700),
        ("NVIDIA H100 PCIe", "H100 PCIe", 350),
        ("NVIDIA H200", "H200", 700),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM", 400),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe", 300),
        ("Tesla V100-SXM2-32GB", "V100", 300),
        ("NVIDIA L40S", "L40S", 350),
        ("NVIDIA L4", "L4", 72),
        ("NVIDIA GeForce RTX 4090", "RTX 4090", 450),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", 300),
        ("Tesla T4", "T4", 70),
    ],
)
def test_product_names_of_nvml_find_their_card(product, card, limit_w):
    levels = card_levels(product)
    assert levels is not None
    assert (levels.name, levels.limit_w) == (card, limit_w)


@pytest.mark.parametrize(
    "product", ["", "NVIDIA RTX A6000", "NVIDIA GeForce RTX 4090D Titan", "AMD Instinct MI300X", "L400"]
)
def test_other_names_find_none(product):
    assert card_levels(product) is None


def test_a_card_whose_levels_were_seen_speaks_with_basis_card():
    levels = power_levels("NVIDIA RTX PRO 6000 Blackwell Server Edition", 600)
    assert levels is not None
    assert levels.basis == "card"
    assert 80 <= levels.idle_w <= 89
    assert levels.busy_w < 600


def test_a_capped_card_and_one_without_a_figure_fall_back_to_the_prior():
    capped = power_levels("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 300)
    unseen = power_levels("NVIDIA L40S", 350)
    assert capped is not None
    assert unseen is not None
    assert capped.basis == unseen.basis == "prior"
    assert unseen.busy_w == pytest.approx(prior_busy_w(102.5, 350))


def test_an_unknown_card_without_a_limit_has_no_levels():
    assert power_levels("Some Card", None) is None
    assert power_levels("Some Card", 0) is None


@given(st.floats(60, 1200))
def test_an_unknown_card_is_judged_by_its_limit_as_a_prior(limit_w):
    levels = power_levels("Some Card", limit_w)
    assert levels is not None
    assert levels.basis == "prior"
    assert 0 < levels.idle_w < levels.busy_w < limit_w
