"""The guard: a small shell program that starts the daemons and ends them when its input closes."""

from __future__ import annotations

from pathlib import Path

from cluster.command import Command
from cluster.deploy.spec import DeployError
from cluster.line_reader import LineReader
from cluster.processes import ProcessId
from cluster.transports.base import HostUnreachable, Transport

STOP_LIMIT_S = 5
_ORDER_LIMIT_S = 20.0

# Used by the guard and by stop.sh. `look PID` sets state, threads and ticks (/proc/PID/stat, fields 3, 20, 22); the
# program's name before them may hold anything, hence the cut at the last ')'.
SHELL_FUNCTIONS = r"""
look() {
    state= threads= ticks=
    { IFS= read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    line=${line##*) }
    set -- $line
    state=$1 threads=${18} ticks=${20}
}
alive() { look "$1" && [ "$ticks" = "$2" ] && { [ "$state" != Z ] || [ "$threads" -gt 1 ]; }; }
any_alive() {
    for entry in $daemons; do
        alive "${entry%:*}" "${entry#*:}" && return 0
    done
    return 1
}
signal_all() {
    for entry in $daemons; do
        alive "${entry%:*}" "${entry#*:}" && kill -s "$1" "${entry%:*}" 2>/dev/null
    done
}
stop_all() {
    signal_all TERM
    left=$((LIMIT * 10))
    while [ "$left" -gt 0 ] && any_alive; do
        sleep 0.1
        left=$((left - 1))
    done
    signal_all KILL
    left=20
    while [ "$left" -gt 0 ] && any_alive; do
        sleep 0.1
        left=$((left - 1))
    done
}
""".replace("LIMIT", str(STOP_LIMIT_S))

# Orders on standard input, one a line: `start NAME`, `keep`. Each daemon gets a session of its own, so that neither
# Ctrl-C nor the end of our process group reaches it before the guard has had its say; the guard itself ignores what
# a terminal sends. SIGPIPE is ignored because the reader of our output may be gone when the daemons must be stopped.
_GUARD = (
    r"""
folder=$1
daemons=
trap '' INT HUP QUIT PIPE
"""
    + SHELL_FUNCTIONS
    + r"""
trap 'stop_all; exit 143' TERM
while IFS= read -r order; do
    case $order in
    start\ *)
        name=${order#start }
        setsid sh "$folder/start/$name.sh" </dev/null >>"$folder/log/$name.out" 2>&1 &
        pid=$!
        if look "$pid"; then
            daemons="$daemons $pid:$ticks"
            printf '{"name": "%s", "pid": %s, "start_ticks": %s}\n' "$name" "$pid" "$ticks" >>"$folder/daemons.jsonl"
            printf 'started %s %s %s\n' "$name" "$pid" "$ticks"
        else
            printf 'failed %s\n' "$name"
        fi
        ;;
    keep)
        printf 'kept\n'
        exit 0
        ;;
    esac
done
stop_all
"""
)


class Guard:
    """Starts daemons by name (each from its script in the folder's `start/`) and holds them until told otherwise."""

    def __init__(self, transport: Transport, folder: Path) -> None:
        script = folder / "guard.sh"
        script.write_text(_GUARD, encoding="utf-8")
        self._channel = transport.start(Command(("sh", str(script), str(folder)), timeout_s=None))
        self._lines = LineReader(self._channel)

    def start(self, name: str) -> ProcessId:
        """Raises DeployError when the guard is gone or the daemon could not be started."""
        line = self._order(f"start {name}", "started ", "failed ")
        words = line.split()
        if words[0] != "started":
            raise DeployError(f"{name} could not be started")
        return ProcessId(int(words[2]), int(words[3]))

    def keep(self) -> None:
        """Lets go of the daemons: they live on when this program ends. Raises DeployError."""
        self._order("keep", "kept")
        self._channel.close_input()
        self._channel.wait(_ORDER_LIMIT_S)

    def stop(self) -> bool:
        """Ends every daemon; whether the guard finished doing so within its limit."""
        self._channel.close_input()
        return self._channel.wait(STOP_LIMIT_S + 10.0) is not None

    def _order(self, order: str, *answers: str) -> str:
        try:
            self._channel.send(order + "\n")
            while (line := self._lines.next(_ORDER_LIMIT_S)) is not None:
                if line.startswith(answers):
                    return line
        except (HostUnreachable, TimeoutError) as error:
            raise DeployError(f"the guard of the daemons does not answer to {order!r}: {error}") from None
        detail = self._channel.stderr_text().strip().splitlines()[-1:]
        raise DeployError(f"the guard of the daemons ended by itself: {detail[0] if detail else 'no message'}")
