"""What container images of inference servers run when nobody says, and what their tags tell. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from bubblewatch.sources.shell_text import Word

_ENTRY_POINTS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"(?:.*/)?vllm-openai(?:-\w+)?"), ("vllm", "serve")),
    (re.compile(r"(?:.*/)?ollama"), ("ollama",)),
    (re.compile(r"(?:.*/)?text-generation-inference"), ("text-generation-launcher",)),
)
"""Image without its tag -> its entry point: vllm-project/vllm docker/Dockerfile (0.11 on; before, the module of the API
server, which takes the same options), ollama/ollama Dockerfile, huggingface/text-generation-inference Dockerfile."""

_PROGRAM = re.compile(
    r"python[\d.]*|(?:ba|da|z)?sh|env|vllm|ollama|sglang|tini|dumb-init|text-generation-\w+|\S+\.(?:py|sh)"
)
"""First words after an image that name a program and do not go to its entry point."""

_OF_SERVERS = re.compile(r"(?:.*/)?(?:vllm|sglang)[\w.-]*")
_VERSION = re.compile(r"v?(?P<version>\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)(?:[-_+].*)?")
"""Examples: `lmsysorg/sglang:v0.5.10.post1-cu126`, `vllm/vllm-openai:v0.24.0`."""


def with_entry_point(image: Word, command: Sequence[Word]) -> list[Word]:
    """The words that a container of `image` runs with `command`.

    Where only options follow, the image stands for its program: what that is, the servers know.
    """
    if not command or command[0].text.startswith("-"):
        return [image, *command]
    program = os.path.basename(command[0].text)  # noqa: PTH119 - a word of a command, not a path here
    if _PROGRAM.fullmatch(program):
        return list(command)
    bare = name_of(image.text)
    entry = next((words for pattern, words in _ENTRY_POINTS if pattern.fullmatch(bare)), ())
    return [*(replace(image, text=word) for word in entry), *command]


def name_of(image: str) -> str:
    """The image without tag and digest."""
    return re.sub(r"(?::[\w.-]+)?(?:@.*)?$", "", image)


def version_of(image: str | None) -> str | None:
    """The server's version as the tag of one of its own images says it; None for `latest`, nightlies and others."""
    if image is None or not _OF_SERVERS.fullmatch(name_of(image)):
        return None
    found = _VERSION.fullmatch(image.partition("@")[0][len(name_of(image)) + 1 :])
    return found["version"] if found else None
