"""Numbers as people read them, and user text made safe to show. One place, so that every format says the same."""

from __future__ import annotations

import math
from datetime import datetime


def significant(value: float, digits: int = 3) -> str:
    """A number with thousands separators and about `digits` significant digits, never in exponent form."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:,.{min(decimals, 6)}f}"


def latency_ms(latency_ns: float | None) -> str:
    """A latency in ms, without the unit; "–" when there is none."""
    return "–" if latency_ns is None else significant(latency_ns / 1e6)


def throughput(value: float) -> str:
    """IOPS or MB/s, without the unit: whole numbers from 100 on, millions from 10⁶ on."""
    if value >= 999_999.5:
        return f"{significant(value / 1e6, 4)} M"
    return f"{value:,.0f}" if value >= 100 else significant(value)


def percent_name(percent: float) -> str:
    return f"p{percent:g}"


def share(value: float | None) -> str:
    """A share (0..1) in per cent. Rounds down, so that 94.99 % does not read as 95 %."""
    return "–" if value is None else f"{math.floor(value * 1000) / 10:.1f} %"


def bytes_text(size: float) -> str:
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:g} B"


def moment(unix_s: float | None) -> str:
    """A time as date and time of day with the zone; "–" when unknown."""
    if unix_s is None:
        return "–"
    return datetime.fromtimestamp(unix_s).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def duration(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {secs:02d} s" if minutes else f"{secs} s"


def visible(text: str, limit: int = 2000) -> str:
    """User text on one line: what cannot be printed is shown as an escape, what is too long is cut with an ellipsis."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def count_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
