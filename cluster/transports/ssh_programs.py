"""The small POSIX-sh programs that run on a host around a command. They need sh and coreutils.

sshd hands what it is asked to run to the user's login shell, whatever that is. So it is always asked for the same line
(PREAMBLE), which starts `sh`; the program itself follows on standard input, after its length. This also keeps long
programs and secrets out of the process list.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from cluster.command import Command, quote_words

PREAMBLE = """exec sh -c 'IFS= read -r n && eval "$(head -c "$n")"'"""

KILL_AFTER_S = 2
"""How long a command that ran into its time limit may take to end after SIGTERM, before SIGKILL."""

GROUP_MARK = "cbt-group "

_LOCALE = "LC_ALL=C; export LC_ALL\n"
_QUIET_SHELL = "exec 4>&2 2>/dev/null\n"

_LIST = """\
[ -d {directory} ] || {{ printf '%s: No such folder\\n' {directory} >&2; exit 1; }}
cd -- {directory} || exit 1
set --
for name in * .[!.]* ..?*; do
    if [ -f "$name" ] && [ ! -L "$name" ]; then set -- "$@" "./$name"; fi
done
[ "$#" -eq 0 ] || {{ stat --printf '%s\\0' -- "$@" && sha256sum -z -- "$@"; }}
exit $?
"""

_SEND = """\
cd -- {directory} || exit 1
if command -v gzip >/dev/null 2>&1; then
    echo gzip
    cat -- {names} | gzip -1
else
    echo plain
    cat -- {names}
fi
exit $?
"""

_PUT = """\
umask 077
set -C
part={part}
trap 'rm -f -- "$part"' EXIT
trap 'exit 1' HUP INT TERM PIPE
head -c {size} >"$part" || exit 1
[ "$(wc -c <"$part")" -eq {size} ] || {{ echo 'the data broke off' >&2; exit 1; }}
chmod {mode:o} -- "$part" && sync -- "$part" && mv -fT -- "$part" {path} && sync -- {folder}
exit $?
"""

_REMOVE = """\
if [ -L {directory} ]; then
    printf '%s: is a symbolic link; not removed\\n' {directory} >&2
    exit 1
fi
rm -rf --one-file-system -- {directory}
exit $?
"""

_END_GROUP = """\
kill -TERM -{group} 2>/dev/null || exit 0
tenths=20
while [ "$tenths" -gt 0 ] && kill -0 -{group} 2>/dev/null; do
    sleep 0.1
    tenths=$((tenths - 1))
done
kill -KILL -{group} 2>/dev/null
exit 0
"""


def encoded(program: str) -> bytes:
    """What follows PREAMBLE on standard input."""
    text = (_LOCALE + program).encode(errors="surrogateescape")
    return b"%d\n%s" % (len(text), text)


def running(command: Command, stdin_size: int) -> str:
    """Runs a command within its time limit, with `stdin_size` bytes as its input.

    A command without input also ends when the connection does: nobody would see what becomes of it. What the shell
    itself has to say (dash: "Killed") does not get into the command's stderr.
    """
    limit = f"timeout -k {KILL_AFTER_S} {_limit(command)} {command.shell()}"
    if stdin_size:
        return f"{_QUIET_SHELL}head -c {stdin_size} | {limit} 2>&4 4>&-\nexit $?\n"
    return f"""\
{_QUIET_SHELL}exec 3<&0 </dev/null
{limit} 2>&4 3<&- 4>&- &
job=$!
exec 4>&-
{{
    IFS= read -r gone <&3
    kill -TERM -$job || kill -TERM $job
    sleep {KILL_AFTER_S}
    kill -KILL -$job
}} >/dev/null &
watch=$!
wait $job
status=$?
kill $watch
exit $status
"""


def holding(command: Command) -> str:
    """Runs a command whose input and output are the channel's. Says first which process group can be signalled; the
    shell stays its parent and outlives it, so that a death by signal becomes an exit status."""
    return f"trap : HUP INT TERM\necho '{GROUP_MARK}'$$ >&2\n{_QUIET_SHELL}{command.shell()} 2>&4 4>&-\nexit $?\n"


def _limit(command: Command) -> str:
    """For timeout(1), which takes 0 for no limit."""
    return "0" if command.timeout_s is None else f"{max(command.timeout_s, 0.001):.3f}"


def listing(directory: str) -> str:
    """Prints the sizes of the regular files, each ended by NUL, then as many lines of sha256sum, the same."""
    return _LIST.format(directory=shlex.quote(directory))


def sending(directory: str, names: Sequence[str]) -> str:
    """Prints `gzip` or `plain` as a line, then the files' contents one after another, in that form."""
    return _SEND.format(directory=shlex.quote(directory), names=quote_words(f"./{name}" for name in names))


def putting(path: str, size: int, mode: int, unique: str) -> str:
    """Makes its input, `size` bytes, the file `path`, whole or not at all."""
    pure = PurePosixPath(path)
    part = pure.with_name(f".{pure.name}.{unique}.part")
    words = {"path": path, "part": str(part), "folder": str(pure.parent)}
    return _PUT.format(size=size, mode=mode, **{name: shlex.quote(word) for name, word in words.items()})


def removing(directory: str) -> str:
    return _REMOVE.format(directory=shlex.quote(directory))


def ending_group(group: int) -> str:
    return _END_GROUP.format(group=group)
