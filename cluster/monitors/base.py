"""What a monitor is: a program that watches a host while a point is measured, told by one module of this folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

PID = "{pid}"
OUTPUT_DIR = "output_dir"
"""In `args`, as `{output_dir}`: the monitor's own folder, whatever the monitor is called."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SHELL_WORDS = frozenset({"|", "||", "&&", "&", "<", "2>", ">>"})

# Runs the words after the fourth, with what they print in files. To end a monitor the launcher sends SIGTERM to its
# process group, more than once; a second signal would kill a program that is writing its results. So the program gets a
# session of its own, and from here the one signal on which it ends in order. (Should this shell be killed, the launcher
# finds the program by its environment.) What sudo started can only be told by way of sudo.
_WRAPPER = r"""
umask 022
folder=$1
mkdir -p -- "$folder" && cd -- "$folder" && exec >"$2" 2>"$3" || exit 1
signal=$4 child= told=
shift 4
tell() {
    trap '' TERM
    told=yes
    [ -z "$child" ] || kill -s "$signal" "$child" 2>/dev/null || sudo -n kill -s "$signal" "$child" 2>/dev/null
}
trap tell TERM
setsid "$@" &
child=$!
[ -z "$told" ] || tell
wait "$child"
status=$?
if [ -n "$told" ]; then
    wait "$child"
    status=$?
fi
case $1 in
    sudo | */sudo) sudo -n chmod -R a+rX -- "$folder" 2>/dev/null ;;
esac
exit "$status"
"""


class TemplateError(ValueError):
    """A monitor's `args` that cannot be made into a command: what is wrong and how to mend it, one line."""


@dataclass(frozen=True, slots=True)
class ProfileKey:
    """A key of a monitoring profile that only some monitors have."""

    name: str
    kind: Literal["command", "list"]
    description: str


@dataclass(frozen=True, slots=True)
class MonitorCommand:
    """One process. `words` is what it runs, for people; `argv` what is launched. `name` begins its files' names."""

    name: str
    words: tuple[str, ...]
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """A command that must exit 0 on a host for the monitor to work there; when it does not, `lacking` says what is
    missing, where the command's own words would not."""

    argv: tuple[str, ...]
    lacking: str | None = None


@dataclass(frozen=True, slots=True)
class Monitor:
    """A monitor: its program, and its arguments unless the plan's profile has others.

    `program_key` is the profile's key that names another program. `probe` are arguments with which the program ends at
    once with status 0. `stop_signal` is the one on which it writes its results and ends.
    """

    name: str
    program: tuple[str, ...]
    default_args: str
    probe: tuple[str, ...]
    program_key: str | None = None
    stop_signal: Literal["TERM", "INT"] = "TERM"
    more_keys: tuple[ProfileKey, ...] = ()

    @property
    def directory_placeholder(self) -> str:
        """`collectl_dir` for collectl: its own folder, in `args`."""
        return f"{self.name}_dir"

    @property
    def profile_keys(self) -> tuple[ProfileKey, ...]:
        """The keys that this monitor's profile has beyond those of all monitors."""
        if self.program_key is None:
            return self.more_keys
        shown = " ".join(self.program)
        return (ProfileKey(self.program_key, "command", f"The {self.name} to run; unset: `{shown}`."), *self.more_keys)

    def template(self, profile: Mapping[str, object]) -> str:
        given = profile.get("args")
        return given if isinstance(given, str) else self.default_args

    def per_process(self, profile: Mapping[str, object]) -> bool:
        """Whether one is run for every process of `pid_glob`, rather than one for the host."""
        return PID in self.template(profile)

    def check(self, profile: Mapping[str, object]) -> None:
        """Raises TemplateError for a profile no command can be made of, whatever the host."""
        self._arguments(profile, "/folder", "1")

    def lacking(self, profile: Mapping[str, object]) -> str | None:
        """What the profile lacks for the monitor to do anything; None when it is all there."""
        del profile
        return None

    def probes(self, profile: Mapping[str, object]) -> tuple[Probe, ...]:
        """What must succeed on a host for the monitor to work there."""
        return (Probe((*self.command(profile), *self.probe)),)

    def command(self, profile: Mapping[str, object]) -> tuple[str, ...]:
        """The program, in the words the profile gives or by its usual name."""
        given = profile.get(self.program_key) if self.program_key is not None else None
        return tuple(str(word) for word in given) if isinstance(given, tuple) else self.program

    def commands(
        self, profile: Mapping[str, object], directory: str, pids: Sequence[int] = ()
    ) -> tuple[MonitorCommand, ...]:
        """What to launch on one host; its files come to stand in `directory` (absolute), which is made.

        `pids` are the processes to watch, for a monitor that is run per process. Raises TemplateError.
        """
        if not self.per_process(profile):
            return (self._launched(profile, directory, None, alone=True),)
        return tuple(self._launched(profile, directory, pid, alone=len(pids) == 1) for pid in pids)

    def added_arguments(self, profile: Mapping[str, object], args: Sequence[str]) -> tuple[str, ...]:
        """Arguments that come from other keys of the profile; none, for most."""
        del profile, args
        return ()

    def _launched(
        self, profile: Mapping[str, object], directory: str, pid: int | None, *, alone: bool
    ) -> MonitorCommand:
        name = self.name if pid is None else f"{self.name}.{pid}"
        args, output = self._arguments(profile, directory, "" if pid is None else str(pid))
        if output is None:
            output = f"{name}.out"
        elif not alone and output == self._arguments(profile, directory, "")[1]:
            output = f"{output}.{pid}"  # each of several processes needs a file of its own
        words = (*self.command(profile), *args, *self.added_arguments(profile, args))
        wrapped = ("sh", "-c", _WRAPPER, "cbt-monitor", directory, output, f"{name}.err", self.stop_signal, *words)
        return MonitorCommand(name, words, wrapped)

    def _arguments(self, profile: Mapping[str, object], directory: str, pid: str) -> tuple[tuple[str, ...], str | None]:
        """The arguments, and the file its output goes to where the template ends in `> FILE`.

        The template is split into words first and filled in afterwards, so that what is filled in stays one word. No
        shell reads any of it.
        """
        template = self.template(profile)
        try:
            words = shlex.split(template)
        except ValueError:
            raise TemplateError("args have a quote that is not closed; close it") from None
        if "\0" in template:
            raise TemplateError("args hold a NUL character; remove it")
        if words[-1:] == ["2>&1"]:
            words.pop()  # what goes to standard error is kept anyway
        values = {self.directory_placeholder: directory, OUTPUT_DIR: directory, "pid": pid}
        filled = [self._filled(word, values) for word in words]
        output = None
        if len(words) >= 2 and words[-2] == ">":
            output = filled[-1]
            words, filled = words[:-2], filled[:-2]
        elif words and words[-1].startswith(">") and len(words[-1]) > 1:
            output = filled[-1][1:]
            words, filled = words[:-1], filled[:-1]
        if wrong := [word for word in words if word in _SHELL_WORDS or word == ">"]:
            raise TemplateError(f"args are not read by a shell: {wrong[0]!r} cannot be used; only '> FILE' at the end")
        if output is not None and not _is_below(output, directory):
            raise TemplateError(f"args send the output elsewhere; write '> {{{self.directory_placeholder}}}/NAME'")
        return tuple(filled), output

    def _filled(self, word: str, values: Mapping[str, str]) -> str:
        def fill(found: re.Match[str]) -> str:
            name = found[1]
            if name in values:
                return values[name]
            if name.endswith("_dir"):
                raise TemplateError(f"args name {found[0]}; the folder here is {{{self.directory_placeholder}}}")
            return found[0]

        return _PLACEHOLDER.sub(fill, word)


def _is_below(path: str, directory: str) -> bool:
    """Whether `path`, absolute or seen from `directory`, is a file directly in it: only those are fetched."""
    return PurePosixPath(directory, path).parent == PurePosixPath(directory) and PurePosixPath(path).name != ".."
