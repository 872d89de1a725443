"""The command itself: its sub-commands, and what becomes of errors."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise

import click
from click.shell_completion import get_completion_class

from bubblewatch import __version__
from bubblewatch.cli.audit import audit
from bubblewatch.cli.bundle import bundle
from bubblewatch.cli.compare import compare
from bubblewatch.cli.config import config
from bubblewatch.cli.daemon import doctor, run
from bubblewatch.cli.demo import demo
from bubblewatch.cli.diagnose import diagnose
from bubblewatch.cli.output import EXIT_BUG, EXIT_INTERRUPTED, EXIT_USAGE
from bubblewatch.cli.predict import predict
from bubblewatch.cli.record import export, lost, record, replay, report
from bubblewatch.cli.rules import rules
from bubblewatch.cli.service import service
from bubblewatch.cli.top import top
from bubblewatch.model.errors import BubblewatchError, RuleError, UsageError

_COMPLETE = "_BUBBLEWATCH_COMPLETE"
"""Environment variable by which a shell asks for completions."""


class _InOrder(click.Group):
    """Lists its commands in the order in which a person needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click gives it
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="bubblewatch")
def cli() -> None:
    """Why are my expensive GPUs idle, and what exactly do I change?

    bubblewatch joins what the GPUs do (NVML), what the inference server says (its log) and how it was launched (its
    command line) into findings, each with its evidence, the option to change, and how to check it.

    \b
      bubblewatch demo         see it work, without a GPU
      bubblewatch doctor       what can be seen from here
      bubblewatch diagnose     watch this machine for 30 s and say what is wrong
      bubblewatch diagnose --command launch.sh --log server.log --telemetry smi.csv
      bubblewatch audit        judge a launch before it runs
      bubblewatch top          the dashboard
      bubblewatch run          the daemon: /metrics on 127.0.0.1:9736
      bubblewatch compare      did the change help? two recordings side by side
    """


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script of a shell.

    \b
    Examples:
      bubblewatch completion bash > ~/.local/share/bash-completion/completions/bubblewatch
      bubblewatch completion fish > ~/.config/fish/completions/bubblewatch.fish
    """
    made = get_completion_class(shell)
    if made is None:
        raise UsageError(f"there is no completion for {shell}")
    click.echo(made(cli, {}, "bubblewatch", _COMPLETE).source())
    return 0


for _command in (
    demo,
    doctor,
    diagnose,
    audit,
    run,
    config,
    service,
    top,
    record,
    replay,
    report,
    export,
    compare,
    predict,
    lost,
    rules,
    bundle,
    completion,
):
    cli.add_command(_command)


def _fail(error: BubblewatchError, *, as_json: bool) -> int:
    """Say the error: one line on stderr, or the document on stdout."""
    if as_json:
        from bubblewatch.report.document import error_document, to_json

        click.echo(to_json(error_document(error.what, error.hint)))
    problems = error.problems if isinstance(error, RuleError) else ()
    click.echo("\n".join((*problems, f"bubblewatch: {error}")), err=True)
    return EXIT_USAGE


def _crash(error: Exception, *, as_json: bool) -> int:
    """Say that this is our fault: the traceback on stderr, the document with `--json`."""
    if as_json:
        from bubblewatch.report.document import error_document, to_json

        click.echo(to_json(error_document(f"a bug in bubblewatch: {type(error).__name__}", "please report it")))
    traceback.print_exception(error)
    click.echo("bubblewatch: this is a bug in bubblewatch; please report it with the lines above", err=True)
    return EXIT_BUG


def _usage(error: click.ClickException) -> UsageError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"{context.command_path} --help shows the options" if context is not None else None
    return UsageError(error.format_message().rstrip("."), hint)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code. A user's error is one line on stderr, with --json a document too."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_run(words))


def _run(words: Sequence[str]) -> int:
    as_json = "--json" in words or "--format=json" in words or ("--format", "json") in pairwise(words)
    if os.environ.get(_COMPLETE):
        cli.main(args=list(words), prog_name="bubblewatch", complete_var=_COMPLETE)
    try:
        code = cli.main(args=list(words), prog_name="bubblewatch", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as shown:
        click.echo(shown.format_message())
        return EXIT_USAGE
    except click.ClickException as error:
        return _fail(_usage(error), as_json=as_json)
    except BubblewatchError as error:
        return _fail(error, as_json=as_json)
    except BrokenPipeError:
        # The reader went away (`| head`): nothing to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - a bug must not leave with 1, which means findings
        return _crash(error, as_json=as_json)
    return code if isinstance(code, int) else 0
