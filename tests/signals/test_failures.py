from bubblewatch.model.logs import Failure, Ready, Starting, VersionSeen
from tests.support.facts import causes, decode, line

BROKEN = Failure(line("fatal"), kind="dead", what="EngineDeadError", fatal=True)


def test_a_server_is_down_when_nothing_came_after_its_last_words() -> None:
    assert causes(Ready(line()), decode(1), BROKEN).value("server.down") is True
    assert causes(BROKEN, Starting(line())).value("server.down") is False
    assert causes(BROKEN, decode(1)).value("server.down") is False
    assert causes(Failure(line(), kind="exception")).value("server.down") is False


def test_lines_of_the_start_are_put_in_their_place_by_time() -> None:
    """The start-up lines of this life are kept apart, in front of older ones."""
    ready = Ready(line("ready", 100.0))
    broken = Failure(line("fatal", 10.0), kind="dead", fatal=True)
    assert causes(ready, broken).value("server.down") is False


def test_starts_after_a_failure_are_counted() -> None:
    life = (VersionSeen(line(), version="0.11.0"), Starting(line()), BROKEN)
    assert causes(*life, *life, *life).value("server.restarts") == 2
    assert causes(*life[:2], Ready(line())).value("server.restarts") == 0


def test_what_the_host_counts_outranks_the_log() -> None:
    assert causes(decode(1), restarts=5).value("server.restarts") == 5


def test_memory_that_ran_out() -> None:
    found = causes(Failure(line("CUDA out of memory"), kind="out-of-memory"))
    assert found.value("failure.oom") is True
    assert found.known["failure.oom"].evidence[0].text == "CUDA out of memory"
    assert causes(decode(1)).value("failure.oom") is False


def test_without_a_log_nothing_is_said() -> None:
    assert {"server.down", "server.restarts", "failure.oom", "log.startup_lost"} <= set(causes().missing)


def test_start_up_lines_that_are_gone_are_lost_only_where_the_log_is_read_live() -> None:
    assert causes(decode(1), live=True).value("log.startup_lost") is True
    assert causes(decode(1), live=True, birth_complete=True).value("log.startup_lost") is False
    assert "log.startup_lost" in causes(decode(1)).missing
