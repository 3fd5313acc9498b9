"""What the report commands' options have in common. Standard library only."""

from __future__ import annotations

import argparse


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults only where there is something to show."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False, True):
            return action.help
        return super()._get_help_string(action)


def parser(program: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser without abbreviations: an option that is added later must not change what a script means."""
    return argparse.ArgumentParser(
        prog=program, description=description, epilog=epilog, allow_abbrev=False, formatter_class=_Formatter
    )


def spellings(name: str) -> tuple[str, ...]:
    """An option with underscores, as the older tool has it, and with hyphens."""
    hyphens = f"--{name.replace('_', '-')}"
    return (f"--{name}",) if "_" not in name else (f"--{name}", hyphens)
