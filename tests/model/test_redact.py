"""Secrets never survive, and nothing else is touched."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.redact import REDACTED, is_secret_name, redact_argv, redact_env, redact_text

HARMLESS = (Path(__file__).parent / "harmless_lines.txt").read_text().splitlines()
"""Lines and words in the forms that SGLang 0.4.6 .. 0.5.23, vLLM 0.8 .. 0.33 and llama.cpp print or take."""

SECRET = "s3cr3tV4lueXq9"
LONG = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ"

# Each place holds one secret where `%` stands.
PLACES = (
    "--api-key %",
    "--api-key=%",
    "--api-k % --port 1",
    "--admin-api % --tp 8",
    "vllm serve m --hf-token % --port 8000",
    "llama-server -hft % -ngl 99",
    "ExecStart=/opt/sglang --api-key \\\n    % \\\n    --tp 8",
    "['python', '-m', 'sglang.launch_server', '--api-key', '%', '--tp', '8']",
    '["--api-key","%"]',
    "server_args=ServerArgs(model_path='/m', api_key='%', port=30000)",
    "server_args={'model_path': '/m', 'admin_api_key': '%', 'nested': {'ssl_keyfile_password': '%'}}",
    "args: Namespace(host=None, api_key=['%', '%'], port=8000)",
    "Config(api_key=SecretStr('%'), x=1)",
    "credentials: api_key='%'",
    "secret: Login(key='%')",
    '{"api_key": "%", "model": "m"}',
    '{"env": ["HF_TOKEN=%", "A=b"]}',
    'payload="{\\"api_key\\": \\"%\\", \\"n\\": 1}"',
    '{"outer": "{\\"password\\": \\"a\\\\\\"b%\\"}"}',
    "WANDB_API_KEY=% python x.py",
    "export MY_TOKEN=%",
    "Environment=HUGGINGFACEHUB_API_TOKEN=%",
    'Environment="ADMIN_PASSWORD=% two words" "OTHER=1"',
    'DB_PASSWORD="first % last"',
    "AWS_SECRET_ACCESS_KEY=%",
    "Authorization: Bearer %",
    "authorization: Basic %",
    "X-Api-Key: %",
    "{'Authorization': 'Bearer %'}",
    "headers: Bearer %, next",
    'INFO: 1.2.3.4:5 - "GET /v1/models?api_key=%&x=1 HTTP/1.1" 200 OK',
    "https://h/p?a=1&key=%&b=2 and https://h/p?sig=%",
    "redis://:%@host:6379/0",
    "postgresql://user:%@db/x",
    "https://token-of-many-characters-%@github.com/a/b",
    "apiKey: %",
    'clientSecret="%"',
    "private_key = %;",
    "password => '%'",
    "credentials={'user': 'me', 'value': '%'}",
    "password: %",
)

SHAPES = (
    LONG,
    "sk-proj-abcdEFGH1234ijklMNOP",
    "sk-ant-api03-abcdEFGH1234-ijkl",
    "ghp_abcdefghijklmnopqrst1234",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "glpat-abcdefghijklmnop1234",
    "nvapi-abcdefghijklmnopqrstu-1234",
    "xoxb-123456789012-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl-_x",
)


@pytest.mark.parametrize("line", HARMLESS)
def test_ordinary_lines_stay_as_they_are(line: str) -> None:
    assert redact_text(line) == line


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_given_to_a_name_goes(place: str) -> None:
    shown = redact_text(place.replace("%", SECRET))

    assert SECRET not in shown
    assert REDACTED in shown
    assert redact_text(shown) == shown


@pytest.mark.parametrize("token", SHAPES)
@pytest.mark.parametrize("around", ["%", "loading with %.", "('%',)", "x=%;", "\u201c%\u201d", "[%]"])
def test_a_secret_known_by_its_shape_goes(token: str, around: str) -> None:
    shown = redact_text(around.replace("%", token))

    assert token[6:] not in shown
    assert shown == around.replace("%", REDACTED)


def test_a_private_key_goes_and_its_frame_stays() -> None:
    text = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc=\n-----END RSA PRIVATE KEY-----"

    assert redact_text(text) == f"-----BEGIN RSA PRIVATE KEY-----{REDACTED}-----END RSA PRIVATE KEY-----"


def test_settings_around_the_secret_stay_readable_as_python() -> None:
    line = "{'model': '/m', 'api_key': ['a1b2', 'c3'], 'auth': {'password': 'x'}, 'hf_token': 'y', 'pp_size': 8}"

    assert ast.literal_eval(redact_text(line)) == {
        "model": "/m",
        "api_key": REDACTED,
        "auth": REDACTED,
        "hf_token": REDACTED,
        "pp_size": 8,
    }


def test_settings_around_the_secret_stay_readable_as_json() -> None:
    line = json.dumps(
        {"model": "/m", "api_key": ["a1b2"], "password": 1234, "secret": {"a": [1]}, "token": "t", "n": 8}
    )

    assert json.loads(redact_text(line)) == {
        "model": "/m",
        "api_key": REDACTED,
        "password": REDACTED,
        "secret": REDACTED,
        "token": REDACTED,
        "n": 8,
    }


@pytest.mark.parametrize(
    "name",
    [
        "--api-key",
        "api_key",
        "API_KEY",
        "apiKey",
        "X-Api-Key",
        "--admin-api-key",
        "--hf-token",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "-hft",
        "token",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "ssl_keyfile_password",
        "--ssl-keyfile-p",
        "--api",
        "--ap",
        "DB_PWD",
        "PGPASSWORD_password",
        "GOOGLE_CREDENTIALS",
        "Authorization",
        "OPENAI_API_KEYS",
        "clientSecret",
        "authToken",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer_path",
        "--tokenizer-mode",
        "max_total_num_tokens",
        "--max-num-batched-tokens",
        "num_tokens_per_bs",
        "eos_token_id",
        "--ssl-keyfile",
        "--ssl-certfile",
        "--chat-template",
        "--allow-credentials",
        "--api-key-file",
        "monkey",
        "keyboard",
        "PWD",
        "OLDPWD",
        "SSH_AUTH_SOCK",
        "--host",
        "--hf-overrides",
        "--tp",
        "--pp-size",
        "KeyError",
        "--speculative-token-map",
        "--a",
        "-a",
        "-h",
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_argv_keeps_its_words_and_loses_its_secrets() -> None:
    argv = ("python", "-m", "sglang.launch_server", "--api-key", "k1", "--admin-api-key=k2", "--hf-token", "--tp", "8")

    assert redact_argv(argv) == (
        *argv[:4],
        REDACTED,
        f"--admin-api-key={REDACTED}",
        "--hf-token",
        "--tp",
        "8",
    )


def test_argv_with_several_keys_behind_one_option() -> None:
    argv = ("vllm", "serve", "m", "--api-key", "k1", "k/2", "--port", "8000", "--hf-token", "k3", "positional")

    assert redact_argv(argv) == (
        *(
            "vllm",
            "serve",
            "m",
            "--api-key",
            REDACTED,
            REDACTED,
            "--port",
            "8000",
            "--hf-token",
            REDACTED,
            "positional",
        ),
    )


def test_argv_with_a_shell_command_inside() -> None:
    shown = redact_argv(["bash", "-c", f"HF_TOKEN={SECRET} exec vllm serve m --api-key {SECRET} --port 8000"])

    assert shown[2] == f"HF_TOKEN={REDACTED} exec vllm serve m --api-key {REDACTED} --port 8000"


def test_env_loses_secrets_only() -> None:
    environment = {
        "API_KEY": "x",
        "HF_TOKEN": SECRET,
        "DATABASE_URL": f"postgres://u:{SECRET}@h/x",
        "SGLANG_TOKENIZER_PATH": "/models/t",
        "MAX_TOKENS": "4096",
        "EMPTY_TOKEN": "",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }

    assert redact_env(environment) == environment | {
        "API_KEY": REDACTED,
        "HF_TOKEN": REDACTED,
        "DATABASE_URL": f"postgres://{REDACTED}@h/x",
    }


PLANTED = st.text("ABCDEFXYZabcdefxyz0123456789-_.+/", min_size=6, max_size=40).map(lambda text: f"Q9{text}7z")


@given(PLANTED, st.sampled_from(PLACES), st.sampled_from(HARMLESS))
def test_planted_secrets_never_survive(secret: str, place: str, beside: str) -> None:
    planted = place.replace("%", secret.replace("/", "%2F") if "@" in place else secret)
    for text in (f"{planted} {beside}", f"{beside} {planted}", f"{beside}\n{planted}"):
        shown = redact_text(text)
        assert secret.replace("/", "%2F") not in shown
        assert secret not in shown
        assert redact_text(shown) == shown


NOISE = st.lists(
    st.sampled_from(
        [
            *"abz09'\"\\[](){}=:,;& \t\n-_./@?<>",
            "api_key",
            "token",
            "--api-key",
            "password",
            "://",
            "Bearer ",
            "hf_",
            "None",
            REDACTED,
            "key",
            "Authorization",
            "SecretStr(",
            "sk-",
            "a1b2c3d4e5f6g7h8i9j0k1",
        ]
    ),
    max_size=40,
).map("".join)


@given(NOISE)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)

    assert redact_text(once) == once


@given(st.lists(NOISE, max_size=8))
def test_argv_keeps_its_number_of_words(argv: list[str]) -> None:
    once = redact_argv(argv)

    assert len(once) == len(argv)
    assert redact_argv(once) == once


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "key",
        "api_key=",
        "api_key='",
        "password=[",
        "'\\",
        "://",
        "Bearer ",
        "hf_",
        "eyJ.",
        "-----BEGIN ",
        "a.",
        "@:",
        "token, ",
        "--api-key ",
        "password={'",
        "a@",
        "sk-",
        "key: ",
        ",a",
        "api_key=a,",
    ],
)
def test_work_grows_with_the_length_of_the_line_not_with_its_square(piece: str) -> None:
    """A square would need hours for this line; no clock is read, the test only has to end."""
    line = (piece * (1_000_000 // len(piece)))[:1_000_000]

    assert isinstance(redact_text(line), str)
