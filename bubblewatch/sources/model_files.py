"""A served model's shape from its folder: config.json, the index of its weight files, and their headers."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bubblewatch.model.errors import UsageError
from bubblewatch.model.shape import ModelShape
from bubblewatch.sources.model_config import ConfigProblem, ModelConfig, model_config
from bubblewatch.sources.model_weights import shape_from_dimensions, shape_from_tensors
from bubblewatch.sources.rooted import inside, names_inside, open_inside, read_inside
from bubblewatch.sources.safetensors import MalformedHeader, Tensor, read_header

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
MODELOPT = "hf_quant_config.json"

MAX_CONFIG_BYTES = 4 * 1024 * 1024
"""Largest config.json that is read; those with thousands of modules left alone have some hundred kilobytes."""

MAX_INDEX_BYTES = 64 * 1024 * 1024
"""Largest index that is read: 200,000 tensors at 120 bytes are 24 MB."""

MAX_FILES = 1_000
"""Weight files of one model that are looked at; the largest published ones have about 250."""

MAX_TENSORS = 1_000_000
"""Tensors of one model: 70,000 with experts stored one by one, a few hundred thousand with their scales."""

HUB_FOLDERS = ("root/.cache/huggingface/hub",)
"""Where the cache of Hugging Face's hub is for root when no variable says so (huggingface_hub 0.34 constants.py)."""

_INDEX_FILE = re.compile(rb'"([^"\\]{1,200}\.safetensors)"')
"""Example: `"lm_head.weight": "model-00030-of-00030.safetensors"` (index of Llama 3.3 70B)."""

_TOTAL_SIZE = re.compile(rb'"total_size"\s*:\s*(\d{1,18})\b')
"""Example: `"total_size": 141107412992` (the same)."""

log = logging.getLogger(__name__)

_EXPECTED = "expected a model's folder or its config.json, as Hugging Face lays it out"


def model_shape(path: str, root: Path = Path("/")) -> ModelShape:
    """The shape of the model in the folder `path` (or whose config.json it is), absolute inside `root`.

    Sizes are exact where the safetensors files lie beside config.json, else counted from the dimensions. Only headers
    are read, never weights.

    Raises UsageError, naming the file, when something is missing, malformed or too large.
    """
    folder, name = _folder(root, path)
    where = str(PurePosixPath(folder, name))
    config_text = _json(root, where, MAX_CONFIG_BYTES)
    modelopt = (
        _json(root, f"{folder}/{MODELOPT}", MAX_CONFIG_BYTES) if _is_there(root, f"{folder}/{MODELOPT}") else None
    )
    try:
        config = model_config(config_text, modelopt)
        return _sized(root, folder, config, where)
    except ConfigProblem as error:
        raise UsageError(f"{where} {error}", _EXPECTED) from error


def given_model(path: str) -> ModelShape:
    """The shape of the model that the user names by a path of this machine. Raises UsageError as `model_shape`."""
    return model_shape(str(Path(path).expanduser().absolute()))


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """How a server names its model: `name` as given, its root folder as we see it, its working directory and the
    variables that say where the hub's cache is.
    """

    name: str
    root: Path = Path("/")
    working_directory: str = "/"
    environment: Mapping[str, str] | None = None


def served_model(place: ModelPlace) -> ModelShape | None:
    """The shape of a model as a running server names it, by folder or by name on the hub; None = it cannot be read."""
    for folder in _candidates(place):
        if not _is_there(place.root, f"{folder}/{CONFIG}"):
            continue
        try:
            return model_shape(folder, place.root)
        except UsageError as error:
            log.info("model not understood error=%s", error)
    return None


def _candidates(place: ModelPlace) -> Iterator[str]:
    """Folders where the server would find its model, in its order: as a path first."""
    if not place.name or "\0" in place.name or "://" in place.name:
        return
    yield str(PurePosixPath(place.working_directory, place.name))
    parts = place.name.split("/")
    if len(parts) != 2 or not all(parts) or ".." in parts:
        return
    for cache in _hub_caches(place.environment or {}):
        home = str(PurePosixPath("/", cache, f"models--{parts[0]}--{parts[1]}"))
        try:
            revision = read_inside(place.root, f"{home}/refs/main", 200).decode("ascii", "replace").strip()
        except OSError:
            revision = ""
        snapshots = names_inside(place.root, f"{home}/snapshots")
        yield from (f"{home}/snapshots/{name}" for name in snapshots if name == revision or not revision)


def _hub_caches(environment: Mapping[str, str]) -> Iterator[str]:
    if cache := environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE"):
        yield cache
    if home := environment.get("HF_HOME"):
        yield f"{home}/hub"
    if cache := environment.get("XDG_CACHE_HOME"):
        yield f"{cache}/huggingface/hub"
    if home := environment.get("HOME"):
        yield f"{home}/.cache/huggingface/hub"
    yield from HUB_FOLDERS


def _folder(root: Path, path: str) -> tuple[str, str]:
    """The folder, and the name of the configuration in it."""
    pure = PurePosixPath("/", path)
    try:
        if inside(root, str(pure)).is_dir():
            return str(pure), CONFIG
    except OSError as error:
        raise UsageError(f"{pure}: cannot be read: {error.strerror or error}", _EXPECTED) from error
    return str(pure.parent), pure.name


def _is_there(root: Path, path: str) -> bool:
    try:
        return inside(root, path).is_file()
    except OSError:
        return False


def _json(root: Path, path: str, limit: int) -> Mapping[str, object]:
    try:
        found = json.loads(read_inside(root, path, limit))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}", _EXPECTED) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON", _EXPECTED) from error
    if not isinstance(found, dict):
        raise UsageError(f"{path}: not a JSON object", _EXPECTED)
    return found


def _sized(root: Path, folder: str, config: ModelConfig, where: str) -> ModelShape:
    """Exact where every weight file is there, else counted."""
    files, stored = _weight_files(root, folder)
    if files and all(_is_there(root, f"{folder}/{name}") for name in files):
        return shape_from_tensors(config, _tensors(root, folder, files), where)
    return shape_from_dimensions(config, where, stored)


def _weight_files(root: Path, folder: str) -> tuple[Sequence[str], int | None]:
    """The files that the index names and their size in bytes by it, else those in the folder and None.

    A second copy of the weights in one piece does not count twice. The index is searched, not parsed: as objects, its
    hundred thousand names would cost a daemon 25 MB for good.
    """
    index = _index(root, f"{folder}/{INDEX}")
    sizes = _TOTAL_SIZE.search(index)
    names = sorted({found[1].decode("utf-8", "replace") for found in _INDEX_FILE.finditer(index)})
    if any("/" in name for name in names):
        raise ConfigProblem(f"has an index ({INDEX}) that names files elsewhere")
    if not names:
        found = [name for name in names_inside(root, folder) if name.endswith(".safetensors")]
        names = [name for name in found if not name.startswith("consolidated")] or found
    if len(names) > MAX_FILES:
        raise ConfigProblem(f"has more than {MAX_FILES} weight files beside it")
    return names, int(sizes[1]) if sizes else None


def _index(root: Path, path: str) -> bytes:
    """The text of the index, empty when there is none."""
    if not _is_there(root, path):
        return b""
    try:
        return read_inside(root, path, MAX_INDEX_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _tensors(root: Path, folder: str, names: Sequence[str]) -> Iterator[Tensor]:
    count = 0
    for name in names:
        try:
            with open_inside(root, f"{folder}/{name}") as file:
                tensors = read_header(file)
        except OSError as error:
            raise UsageError(f"{folder}/{name}: cannot be read: {error.strerror or error}") from error
        except MalformedHeader as error:
            raise UsageError(
                f"{folder}/{name} {error}", "it is not a safetensors file, or not all of it is there"
            ) from error
        count += len(tensors)
        if count > MAX_TENSORS:
            raise UsageError(f"{folder}: more than {MAX_TENSORS} tensors", _EXPECTED)
        yield from tensors
