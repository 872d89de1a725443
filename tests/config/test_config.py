"""The daemon's configuration: what holds, where it comes from, and what is said of a wrong one."""

from __future__ import annotations

import contextlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.app.config import KEYS, Config, Loaded, load
from bubblewatch.app.config_kinds import duration_s, show_duration, show_size, size_bytes
from bubblewatch.app.config_places import key_lines
from bubblewatch.app.config_show import as_toml, schema
from bubblewatch.cli.entry import cli
from bubblewatch.model.errors import BubblewatchError, ConfigError


def write(folder: Path, text: str) -> str:
    file = folder / "config.toml"
    file.write_text(text)
    return str(file)


def refusal(folder: Path, text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(write(folder, text), environ or {})
    return caught.value.what.replace(str(folder), "")


def test_without_anything_the_defaults_hold() -> None:
    loaded = load(None, {})
    assert loaded.config == Config()
    assert loaded.origin("listen") == "default"


def test_flags_go_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = write(tmp_path, '[watch]\nrate = 5\nwindow = "1m"\n\n[serve]\nlisten = "127.0.0.1:1"\n')
    environ = {"BUBBLEWATCH_WATCH_RATE": "7", "BUBBLEWATCH_SERVE_LISTEN": "a:1, b:2"}
    loaded = load(file, environ, {"listen": ("c:3",)})

    assert (loaded.config.rate_hz, loaded.config.window_s, loaded.config.listen) == (7.0, 60.0, ("c:3",))
    assert loaded.origin("rate_hz") == "BUBBLEWATCH_WATCH_RATE"
    assert loaded.origin("window_s") == f"{file}:3"
    assert loaded.origin("listen") == "command line"


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[watch]\nnvml = false\n")
    assert load(None, {"BUBBLEWATCH_CONFIG": file}).config.nvml is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[watch]\nrtae = 3", "/config.toml:2: watch.rtae is no setting; did you mean watch.rate?"),
        ("\n\n[serve]\nrate = 3", "/config.toml:4: serve.rate is no setting; did you mean watch.rate?"),
        ("[wtach]\nrate = 3", "/config.toml:1: wtach is no setting; did you mean watch"),
        ("[watch]\nwindow = 30", "/config.toml:2: watch.window = 30: a bare number has no unit"),
        ('[watch]\nwindow = "30 parsecs"', "parsecs is no unit of time (ms, s, m, h, d)"),
        ('[state]\nmax_size = "1 KiB"', "is not from 64KiB to 1GiB"),
        ("[watch]\nrate = true", "is no number"),
        ("[watch]\nrate = nan", "is no number"),
        ('[watch]\nnvml = "yes"', "is neither true nor false"),
        ("[watch]\nignore = [1]", "is no list of texts"),
        ('[log]\nlevel = "loud"', "log.level is one of debug, info, warning, error"),
        ("[watch]\nrate = ", "/config.toml:2: Invalid value"),
        ("[watch\nrate = 1", "/config.toml:1:7: "),
        ("watch = 3", "/config.toml:1: watch is no setting"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path, text)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, "[watch]\nrate = 0\nwindow = 3\n", {"BUBBLEWATCH_WATCH_NVML": "maybe"})
    assert said.count("\n") == 2
    assert "BUBBLEWATCH_WATCH_NVML" in said


def test_a_misspelt_variable_is_not_overlooked() -> None:
    with pytest.raises(ConfigError, match="did you mean BUBBLEWATCH_SERVE_LISTEN"):
        load(None, {"BUBBLEWATCH_SERVE_LISTN": "x:1"})


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * 2_000_000])
def test_what_is_no_configuration_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"is not UTF-8 text|larger than"):
        load(str(file), {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(str(tmp_path), {})


def test_every_key_is_documented_and_shown_as_a_file_that_means_the_same(tmp_path: Path) -> None:
    shown = as_toml(Loaded())
    assert all(key.meaning.endswith((".", "any.")) for key in KEYS.values())
    assert load(write(tmp_path, shown), {}).config == Config()
    assert all(key.name.partition(".")[2] in shown for key in KEYS.values())


def test_what_was_chosen_is_shown_with_its_origin(tmp_path: Path) -> None:
    file = write(tmp_path, '[watch]\nignore = ["no-demand", "quote\\"d"]\nwindow = "90s"\n')
    loaded = load(file, {})
    shown = as_toml(loaded)
    assert f'window = "90s"  # {file}:3' in shown
    assert load(write(tmp_path, shown), {}).config == loaded.config


def test_the_schema_names_every_key_with_its_default() -> None:
    tables = schema()["properties"]
    found = {f"{table}.{key}" for table, content in tables.items() for key in content["properties"]}
    assert found == {key.name for key in KEYS.values()}
    assert tables["watch"]["properties"]["window"]["default"] == "30s"
    assert tables["state"]["properties"]["max_size"]["default"] == "32MiB"


def run(*words: str) -> tuple[int, str]:
    """Exit code and output of a sub-command of `config`; errors as `TYPE: text`."""
    done = CliRunner().invoke(cli, ["config", *words], standalone_mode=False)
    if done.exception is not None:
        assert isinstance(done.exception, BubblewatchError), done.exception
        return 2, str(done.exception)
    return done.return_value, done.output


def test_the_command_checks_shows_and_describes(tmp_path: Path) -> None:
    file = write(tmp_path, '[watch]\nignore = ["no-demand"]\n')
    assert run("check", "--config", file)[0] == 0
    shown: dict[str, Any] = json.loads(run("show", "--config", file, "--json")[1])
    assert shown["settings"]["watch.ignore"] == {"value": ["no-demand"], "origin": f"{file}:2"}
    assert tomllib.loads(run("show", "--config", file)[1])["watch"]["ignore"] == ["no-demand"]
    assert json.loads(run("schema")[1])["type"] == "object"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[watch]\nignore = ["no-such-rule"]', "no rule is called 'no-such-rule'"),
        ('[serve]\nlisten = "here"', "is not HOST:PORT"),
        ('[serve]\nweb_config = "/nowhere/web.yml"', "/nowhere/web.yml: cannot be read"),
        ('[watch]\ngpus = "x"', "names no GPU"),
    ],
)
def test_check_looks_into_the_files_that_are_named(tmp_path: Path, text: str, said: str) -> None:
    code, output = run("check", "--config", write(tmp_path, text))
    assert code == 2
    assert said in output


@given(st.floats(0.001, 10**6).map(lambda s: round(s, 3)))
def test_a_duration_shown_is_read_as_itself(seconds: float) -> None:
    shown = show_duration(seconds)[1:-1]
    assert duration_s(shown) == pytest.approx(seconds, rel=1e-5)


@given(st.integers(0, 2**50))
def test_a_size_shown_is_read_as_itself(size: int) -> None:
    assert size_bytes(show_size(size)[1:-1]) == size


@given(st.lists(st.tuples(st.integers(1, 99), st.sampled_from(["h", "m", "s", "ms"])), min_size=1, max_size=4))
def test_durations_add_up(parts: list[tuple[int, str]]) -> None:
    weight = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
    text = " ".join(f"{number}{unit}" for number, unit in parts)
    assert duration_s(text) == pytest.approx(sum(number * weight[unit] for number, unit in parts))


@given(st.text(max_size=200))
def test_no_text_makes_the_configuration_fail_otherwise(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ConfigError):
        load(str(file), {})


VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["a", "b-c", "d_e", "9"]), VALUES, min_size=1, max_size=4), st.integers(0, 3))
def test_each_key_is_found_on_its_line(keys: dict[str, Any], blank: int) -> None:
    lines = ["# first", *[""] * blank, "[table]"]
    expected = {"table": len(lines)}
    for name, value in keys.items():
        expected[f"table.{name}"] = len(lines) + 1
        lines += f"{name} = {json.dumps(value, indent=1)}".split("\n")
    text = "\n".join(lines)
    assert set(tomllib.loads(text)) == {"table"}
    assert key_lines(text) == expected


def test_places_are_right_beside_long_strings_and_comments() -> None:
    text = (
        "a = \"\"\"\nb = 1\n[c]\n\"\"\"  # [d]\ne = '''x'''\n[f.g]  # note\n"
        '"h i" = {j = [1,\n2]}\nk.l = "[" # ]\nm = 1\n'
    )
    assert key_lines(text) == {"a": 1, "e": 5, "f.g": 6, "f.g.h i": 7, "f.g.k.l": 9, "f.g.m": 10}
