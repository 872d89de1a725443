"""The option files that a launch names (`--config serve.yaml`), read where they can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from types import MappingProxyType

from bubblewatch.model.errors import UsageError
from bubblewatch.model.redact import redact_text
from bubblewatch.model.server import Launch
from bubblewatch.sources.launch_scripts import Opener, open_script

_NAMING = frozenset({"--config", "--extra_llm_api_options", "--extra-llm-api-options"})
"""Options that name a file of further options: SGLang and vLLM (`--config`), TensorRT-LLM (the others)."""

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})

_MOST_CHARACTERS = 65_536
"""A longer file is no option file: real ones hold some dozens of lines."""


def with_option_files(launch: Launch, name: str, opener: Opener | None = None) -> Launch:
    """The launch with the text of the option files that it names, secrets redacted; `name` is the file it stands in.

    A relative path counts from the working directory, else from beside `name`. Without an `opener` files are those of
    this machine, and of a container none. What cannot be read is left out: the server's settings say so.
    """
    if opener is None and launch.image is not None:
        return launch
    beside = f"{launch.working_directory}/launch" if launch.working_directory else name
    texts: dict[str, str] = {}
    for path in _named(launch.argv):
        if PurePosixPath(path).suffix not in _SUFFIXES:
            continue
        try:
            text = (opener or open_script)(path, beside).text
        except UsageError:
            continue
        if len(text) <= _MOST_CHARACTERS:
            texts[path] = "\n".join(map(redact_text, text.splitlines()))
    return replace(launch, files=MappingProxyType(texts)) if texts else launch


def _named(argv: Sequence[str]) -> Iterator[str]:
    for index, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if option in _NAMING:
            if equals:
                yield value
            elif index + 1 < len(argv):
                yield argv[index + 1]
