"""A model's shape from its folder: headers where they are, dimensions otherwise, and nothing that leads elsewhere."""

from __future__ import annotations

import json
import os
import struct
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.errors import UsageError
from bubblewatch.model.shape import ShapeBasis
from bubblewatch.sources.model_files import ModelPlace, given_model, model_shape, served_model
from bubblewatch.sources.rooted import inside, read_inside
from bubblewatch.sources.safetensors import MalformedHeader, read_header
from tests.support.model_folder import DENSE, MIXTURE, attention, dense_tensors, header, write_model

ATTENTION = 2 * (2 * 64 * 64 + 2 * 16 * 64 + 64)
DENSE_LAYER = ATTENTION + 2 * 3 * 64 * 128
TABLE = 2 * 1000 * 64


@pytest.mark.parametrize("files", [1, 3])
def test_sizes_of_a_dense_model_are_those_of_its_tensors(tmp_path: Path, files: int) -> None:
    shape = given_model(str(write_model(tmp_path / "m", DENSE, dense_tensors(), files)))
    assert shape.basis is ShapeBasis.HEADERS
    assert [layer.shared_bytes for layer in shape.layers] == [DENSE_LAYER] * 4
    assert shape.head_bytes == TABLE
    assert shape.weight_bytes == 4 * DENSE_LAYER + 2 * TABLE + 2 * 64
    assert shape.active_bytes == 4 * DENSE_LAYER + TABLE
    assert shape.kv_token_bytes == 4 * 2 * 2 * 8 * 2
    assert shape.where.endswith("/m/config.json")


def test_the_configuration_itself_may_be_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path, DENSE, dense_tensors())
    assert given_model(str(folder / "config.json")) == given_model(str(folder))


def test_experts_one_by_one_and_all_in_one_tensor_are_the_same(tmp_path: Path) -> None:
    apart, stacked = {}, {}
    for i in range(4):
        at = f"model.layers.{i}."
        apart |= attention(at) | {
            f"{at}mlp.experts.{e}.{name}.weight": ("BF16", (32, 64))
            for e in range(16)
            for name in ("gate_proj", "up_proj", "down_proj")
        }
        stacked |= attention(at) | {f"{at}mlp.experts.gate_up_proj": ("BF16", (16, 64, 64))}
        stacked |= {f"{at}mlp.experts.down_proj": ("BF16", (16, 32, 64))}
    first = given_model(str(write_model(tmp_path / "a", MIXTURE, apart)))
    second = given_model(str(write_model(tmp_path / "b", MIXTURE, stacked)))
    assert first.layers == second.layers
    assert first.layers[0].expert_bytes == 2 * 3 * 32 * 64
    assert first.layers[0].shared_bytes == ATTENTION
    assert first.active_bytes == 4 * (ATTENTION + 2 * 2 * 3 * 32 * 64)


def test_draft_layers_and_towers_are_stored_and_not_read(tmp_path: Path) -> None:
    """DeepSeek's draft layer has the number behind the last one; a tower may have layers of its own."""
    tensors = dense_tensors() | attention("model.layers.4.") | attention("vision_tower.encoder.layers.0.")
    tensors |= attention("mtp.layers.0.")
    shape = given_model(str(write_model(tmp_path, DENSE, tensors)))
    assert shape.active_bytes == 4 * DENSE_LAYER + TABLE
    assert shape.weight_bytes == 4 * DENSE_LAYER + 2 * TABLE + 2 * 64 + 3 * ATTENTION


def test_a_tied_head_is_the_embedding_table(tmp_path: Path) -> None:
    tensors = dense_tensors()
    del tensors["lm_head.weight"]
    tied = given_model(str(write_model(tmp_path / "a", {**DENSE, "tie_word_embeddings": True}, tensors)))
    assert tied.head_bytes == TABLE


def test_wide_floats_count_as_servers_load_them(tmp_path: Path) -> None:
    wide = {name: ("F32", shape) for name, (_, shape) in dense_tensors().items()}
    narrow = given_model(str(write_model(tmp_path / "a", DENSE, dense_tensors())))
    assert given_model(str(write_model(tmp_path / "b", DENSE, wide))).layers == narrow.layers


def test_a_second_copy_in_one_piece_does_not_count(tmp_path: Path) -> None:
    folder = write_model(tmp_path, DENSE, dense_tensors(), files=1)
    (folder / "consolidated.safetensors").write_bytes(header({"layers.0.attention.wq.weight": ("BF16", (64, 64))}))
    assert given_model(str(folder)).weight_bytes == 4 * DENSE_LAYER + 2 * TABLE + 2 * 64


def test_without_all_weight_files_sizes_come_from_the_dimensions(tmp_path: Path) -> None:
    folder = write_model(tmp_path, DENSE, dense_tensors(), files=3)
    next(folder.glob("*.safetensors")).unlink()
    shape = given_model(str(folder))
    assert shape.basis is ShapeBasis.CONFIG
    assert shape.layers[0].shared_bytes == pytest.approx(DENSE_LAYER, rel=0.01)
    assert shape.weight_bytes == 1  # what the index says


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: (f / "config.json").unlink(), "cannot be read"),
        (lambda f: (f / "config.json").write_text("{"), "not JSON"),
        (lambda f: (f / "config.json").write_text("[" * 100_000), "not JSON"),
        (lambda f: (f / "config.json").write_text("[]"), "not a JSON object"),
        (lambda f: (f / "config.json").write_text("{}"), "does not say the number of layers"),
        (lambda f: (f / "config.json").write_bytes(b" " * 5_000_000), "larger than"),
        (lambda f: next(f.glob("model-*")).write_bytes(b"abc"), "too short for a header"),
        (lambda f: next(f.glob("model-*")).write_bytes(struct.pack("<Q", 2**60)), "claims a header"),
        (lambda f: next(f.glob("model-*")).write_bytes(struct.pack("<Q", 9) + b"{}"), "ends within its header"),
        (lambda f: next(f.glob("model-*")).write_bytes(header({})), "nothing of"),
        (lambda f: (f / "model.safetensors.index.json").write_text('{"a": "../b.safetensors"}'), "elsewhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path: Path, spoil: object, words: str) -> None:
    folder = write_model(tmp_path / "m", DENSE, dense_tensors(layers=1) | attention("model.layers.3."), files=9)
    assert callable(spoil)
    spoil(folder)
    with pytest.raises(UsageError, match=words) as caught:
        given_model(str(folder))
    assert str(folder) in caught.value.what
    assert "\n" not in str(caught.value)


def test_experts_that_the_configuration_does_not_know_are_refused(tmp_path: Path) -> None:
    tensors = dense_tensors() | {"model.layers.0.mlp.experts.0.up_proj.weight": ("BF16", (32, 64))}
    with pytest.raises(UsageError, match="names no experts"):
        given_model(str(write_model(tmp_path, DENSE, tensors)))


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda raw: struct.pack("<Q", len(raw)) + raw))
def test_random_bytes_are_no_header(raw: bytes) -> None:
    try:
        tensors = read_header(BytesIO(raw))
    except MalformedHeader:
        return
    assert tensors == ()  # an empty object


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "BF16", "shape": [1]},
        {"dtype": "BF16", "shape": [1], "data_offsets": [4, 2]},
        {"dtype": "BF16", "shape": [1], "data_offsets": [-4, 2]},
        {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2**64]},
        {"dtype": "F32", "shape": [2**62] * 100, "data_offsets": [0, 2]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 2]},
        [],
    ],
)
def test_a_tensor_that_cannot_be_is_refused(entry: object) -> None:
    text = json.dumps({"a": entry}).encode()
    with pytest.raises(MalformedHeader):
        read_header(BytesIO(struct.pack("<Q", len(text)) + text))


def test_links_of_another_root_are_followed_inside_it(tmp_path: Path) -> None:
    """A container whose /models/k is a link to /data/k has it under its own root, not under ours."""
    root = tmp_path / "root"
    write_model(root / "data/k", DENSE)
    (root / "models").mkdir()
    (root / "models/k").symlink_to("/data/k")
    (root / "models/up").symlink_to("../../../../../data/k")
    assert model_shape("/models/k", root).hidden == 64
    assert model_shape("/models/up", root).hidden == 64


def test_a_link_never_leads_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("outside", encoding="utf-8")
    root = tmp_path / "root"
    root.mkdir()
    for name, target in (("a", tmp_path / "secret"), ("b", "../secret"), ("c", "../../../../../../secret")):
        (root / name).symlink_to(target)
        with pytest.raises(FileNotFoundError):
            read_inside(root, f"/{name}", 100)


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="a"):
        inside(tmp_path, "/a")


@given(st.lists(st.sampled_from(["..", ".", "a", "b", ""]), max_size=12))
def test_no_path_leads_out_of_its_root(parts: list[str]) -> None:
    root = Path("/nowhere/root")
    assert inside(root, "/".join(parts)).is_relative_to(root)


def test_a_pipe_or_a_folder_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(OSError, match="not a regular file"):
        read_inside(tmp_path, "/config.json", 100)
    assert served_model(ModelPlace("/", tmp_path)) is None


def hub(root: Path, home: str, revision: str = "abc") -> Path:
    """A model in the hub's cache: blobs, a snapshot that links to them, and the branch that names it."""
    repository = root / home / "models--Qwen--Qwen3-8B"
    (repository / "blobs").mkdir(parents=True)
    snapshot = write_model(repository / "snapshots" / revision, DENSE)
    (snapshot / "config.json").rename(repository / "blobs/1")
    (snapshot / "config.json").symlink_to("../../blobs/1")
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(revision, encoding="ascii")
    return repository


@pytest.mark.parametrize(
    ("home", "environment"),
    [
        ("cache", {"HF_HUB_CACHE": "/cache"}),
        ("hf/hub", {"HF_HOME": "/hf"}),
        ("x/huggingface/hub", {"XDG_CACHE_HOME": "/x"}),
        ("home/me/.cache/huggingface/hub", {"HOME": "/home/me"}),
        ("root/.cache/huggingface/hub", None),
    ],
)
def test_a_name_on_the_hub_is_looked_up_in_the_cache_of_the_server(
    tmp_path: Path, home: str, environment: dict[str, str] | None
) -> None:
    repository = hub(tmp_path, home)
    write_model(repository / "snapshots/older", {**DENSE, "hidden_size": 32})
    shape = served_model(ModelPlace("Qwen/Qwen3-8B", tmp_path, environment=environment))
    assert shape is not None
    assert shape.hidden == 64


def test_a_relative_folder_is_relative_to_where_the_server_works(tmp_path: Path) -> None:
    write_model(tmp_path / "srv/models/k", DENSE)
    assert served_model(ModelPlace("models/k", tmp_path, "/srv")) is not None


@pytest.mark.parametrize(
    "name", ["", "none/here", "../x", "a/..", "s3://bucket/model", "a\0b", "/models/k.gguf", "x" * 5000]
)
def test_a_model_that_is_not_there_is_none(tmp_path: Path, name: str) -> None:
    assert served_model(ModelPlace(name, tmp_path)) is None


def test_a_served_model_that_cannot_be_understood_is_none(tmp_path: Path) -> None:
    write_model(tmp_path / "m", {"model_type": "odd"})
    assert served_model(ModelPlace("/m", tmp_path)) is None
