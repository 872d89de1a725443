"""The text of the systemd unit: what the daemon may do, and nothing more.

Directives are those of systemd.exec(5), systemd.service(5) and systemd.resource-control(5) of systemd 252, the oldest
that the supported distributions have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bubblewatch.model.errors import UsageError

UNIT = "bubblewatch.service"

WATCHDOG_S = 30
"""Seconds without a sign of life after which systemd kills and restarts the daemon: a judgement comes every second and
takes a fraction of one, also on a busy host."""

STOP_S = 5
"""Seconds that a stop may take before systemd kills: the daemon needs less than two."""


class Profile(StrEnum):
    """What the service may see. MINIMAL: any user's view. HOST: the journal and the GPUs. FULL: also other users'
    environments, container log files and open files.
    """

    MINIMAL = "minimal"
    HOST = "host"
    FULL = "full"


_GROUPS: Mapping[Profile, tuple[str, ...]] = {
    Profile.MINIMAL: (),
    Profile.HOST: ("systemd-journal", "video"),
    Profile.FULL: ("systemd-journal", "video"),
}
_CAPABILITIES: Mapping[Profile, str] = {
    Profile.MINIMAL: "",
    Profile.HOST: "",
    # the environment and the descriptors of other users' processes; files of containers that only root may read
    Profile.FULL: "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH",
}

_TEMPLATE = """\
# Written by `bubblewatch service install`. Change it with `systemctl edit {unit}`, not here.
[Unit]
Description=bubblewatch: why GPUs are idle, and what to change
After=systemd-journald.service network.target nvidia-persistenced.service
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
WatchdogSec={watchdog_s}
Restart=on-failure
RestartSec=2
# A wrong configuration does not become right by trying again.
RestartPreventExitStatus=2
TimeoutStartSec=60
TimeoutStopSec={stop_s}
KillMode=mixed

# A user of its own, made at start
DynamicUser=yes
User=bubblewatch
SupplementaryGroups={groups}
CapabilityBoundingSet={capabilities}
AmbientCapabilities={capabilities}
NoNewPrivileges=yes
UMask=0077
StateDirectory=bubblewatch
StateDirectoryMode=0700
RuntimeDirectory=bubblewatch
RuntimeDirectoryMode=0755

# It writes nothing but its state. ProtectProc and ProcSubset stay open: it looks at the processes of servers.
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RemoveIPC=yes

# The GPUs' device files, and no others. PrivateDevices would hide them.
DevicePolicy=closed
DeviceAllow=char-nvidia* rw

RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
{addresses}
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM

# A monitor is the first to give way.
LimitNOFILE=4096
LimitCORE=0
TasksMax=64
MemoryHigh=384M
MemoryMax=512M
CPUWeight=20
IOWeight=20
OOMScoreAdjust=500

[Install]
WantedBy=multi-user.target
"""

_LOCAL_ONLY = "# Servers and scrapers on this machine only.\nIPAddressDeny=any\nIPAddressAllow=localhost"
_ANYWHERE = "# It is asked from other machines: serve.listen says so."


@dataclass(frozen=True, slots=True)
class UnitOptions:
    """What goes into the unit. `groups` are further ones, `command` is the whole command line."""

    command: tuple[str, ...]
    profile: Profile = Profile.HOST
    groups: tuple[str, ...] = ()
    is_local: bool = True


def unit_text(options: UnitOptions) -> str:
    """The unit file. Raises UsageError for a word that systemd could not read as one."""
    return _TEMPLATE.format(
        unit=UNIT,
        command=" ".join(_word(word) for word in options.command),
        watchdog_s=WATCHDOG_S,
        stop_s=STOP_S,
        groups=" ".join((*_GROUPS[options.profile], *options.groups)),
        capabilities=_CAPABILITIES[options.profile],
        addresses=_LOCAL_ONLY if options.is_local else _ANYWHERE,
    )


def is_local(addresses: Sequence[str]) -> bool:
    """Whether every address to listen on is of this machine alone."""
    local = ("127.", "localhost:", "[::1]:", "unix:", ":")
    return all(address.startswith(local) for address in addresses)


def _word(word: str) -> str:
    """One word of ExecStart: `%` and `$` doubled, quoted when it has to be (systemd.service(5), COMMAND LINES)."""
    if any(character in word for character in "\n\r\0"):
        raise UsageError(f"{word!r} cannot stand in a unit file: it holds a line end")
    plain = word.replace("%", "%%").replace("$", "$$")
    if not plain or any(character in plain for character in " \t\"'\\;"):
        escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return plain
