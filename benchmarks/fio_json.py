"""Reads what fio prints: finds the JSON document among other text and turns it into a Sample.

Pure and strict: a value that cannot be true (negative, not finite, absurdly large) is refused with its reason, because
a wrong number is worse than none. fio 2.x (microseconds, KiB/s) and 3.x (nanoseconds, bytes/s) are both read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from benchmarks.model import Measurement, OutputError, Sample

MAX_OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""No instance prints this much: 64 jobs with full `json+` histograms take about 12 MB."""

_MAX_FALSE_STARTS: Final = 64
_MAX_LATENCY_NS: Final = 1e15  # 11.6 days
_MAX_IOPS: Final = 1e10
_MAX_BANDWIDTH: Final = 1e14
_MAX_COUNT: Final = 10**15
_MAX_RUNTIME_MS: Final = 1e11  # 3 years

_DOCUMENT_START: Final = re.compile(r"^[ \t]*\{", re.MULTILINE)
_SIGNAL: Final = re.compile(r"fio: terminating on signal (\d{1,3})")
_DEPTH_CAPPED: Final = "queue depth will be capped at 1"
_SIZE: Final = re.compile(r"(\d{1,18})(?:\.0*)?\s*(b|[kmgtp](?:i?b)?)?", re.IGNORECASE)
_SIZE_FACTOR: Final = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}

_DIRECTIONS: Final = ("read", "write", "trim", "mixed")  # "mixed" with unified_rw_reporting
_MIXED: Final = frozenset({"rw", "randrw"})
_TRIM_AND_WRITE: Final = frozenset({"trimwrite", "randtrimwrite"})
_OPERATIONS: Final = _MIXED | _TRIM_AND_WRITE | {"read", "write", "randread", "randwrite", "trim", "randtrim"}
_WHY_NO_LATENCY: Final = "(disable_clat or gtod_reduce set, or the volume was done before the ramp ended?)"
_ALL_CLIENTS: Final = "All clients"

_LATENCY_UNITS: Final = (("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000), ("", 1_000))
"""Suffix of a latency key → nanoseconds. Without suffix it is fio 2.x, which counts in microseconds."""


def parse_fio(output: bytes) -> tuple[Sample, bytes]:
    """The numbers of one fio process, and its JSON document as the bytes fio printed.

    With `--status-interval` fio prints documents in a row, each cumulative: the last whole one counts, and a note
    says so. Jobs and directions that did no I/O give no Measurement. Raises OutputError.
    """
    if len(output) > MAX_OUTPUT_BYTES:
        raise OutputError(f"fio's output has {len(output)} bytes, more than the {MAX_OUTPUT_BYTES} that are read")
    if not output.strip(b"\0 \t\r\n"):
        raise OutputError("fio printed nothing")
    # One byte is one character in Latin-1, so positions in the text are positions in the file.
    text = output.decode("latin-1")
    document, start, end, notes = _last_document(text)
    before = text[:start]
    signal = _SIGNAL.search(before)
    if signal:
        notes.append(f"fio was ended by signal {signal[1]}")
    sample = _sample(document, notes, depth_capped=_DEPTH_CAPPED in before)
    return sample, output[start:end]


def parse_size(text: str) -> int | None:
    """Bytes in a size as fio writes it: 4096, 4096B, 4k, 4KiB, 1M (all powers of 1024). None when it is not one."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    return int(match[1]) * _SIZE_FACTOR[(match[2] or "")[:1].lower()]


def _refuse_constant(name: str) -> NoReturn:
    raise OutputError(f"fio's JSON holds {name}, which is not a number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def _last_document(text: str) -> tuple[Mapping[str, Any], int, int, list[str]]:
    """The last whole fio document: itself, where it starts and ends, and what is worth noting about the others."""
    found: list[tuple[dict[str, Any], int, int]] = []
    foreign = 0
    failure: str | None = None
    false_starts = 0
    position = 0
    anywhere = False
    while false_starts < _MAX_FALSE_STARTS:
        match = _DOCUMENT_START.search(text, position)
        if match is not None:
            start = match.end() - 1
        elif not found and not anywhere:  # nothing that begins a line: perhaps text stands before it on its line
            anywhere, start = True, text.find("{")
        else:
            break
        if start < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            failure = _decode_failure(text, error, start)
            false_starts += 1
            position = start + 1
            continue
        except RecursionError:
            raise OutputError(f"fio's JSON is nested too deeply (from byte {start})") from None
        except ValueError as error:  # an integer with thousands of digits
            raise OutputError(f"fio's JSON cannot be read: {_one_line(str(error))}") from None
        position = end
        if isinstance(value, dict) and ("jobs" in value or "client_stats" in value or "fio version" in value):
            found.append((value, start, end))
            failure = None
        else:
            foreign += 1
    if not found:
        raise OutputError(_nothing_found(text, failure, foreign))
    notes = []
    if len(found) > 1:
        notes.append(f"fio printed {len(found)} documents (--status-interval): the last whole one counts")
    if failure is not None:
        notes.append(f"after the last whole document: {failure}")
    document, start, end = found[-1]
    return document, start, end, notes


def _decode_failure(text: str, error: json.JSONDecodeError, start: int) -> str:
    if error.pos >= len(text.rstrip("\0 \t\r\n")) or error.msg.startswith("Unterminated string"):
        return f"the JSON that starts at byte {start} is truncated at byte {len(text)}"
    return f"the JSON that starts at byte {start} is malformed at byte {error.pos} ({error.msg})"


def _nothing_found(text: str, failure: str | None, foreign: int) -> str:
    signal = _SIGNAL.search(text)
    prefix = f"fio was ended by signal {signal[1]}: " if signal else ""
    if failure is not None:
        return prefix + failure
    if foreign:
        return prefix + "no fio document in the output, only other JSON"
    last_line = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    return prefix + f"no JSON in fio's output; its last line is: {_one_line(last_line)}"


def _one_line(text: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(printable.split())
    return line if len(line) <= 160 else line[:157] + "..."


def _sample(document: Mapping[str, Any], notes: list[str], *, depth_capped: bool) -> Sample:
    jobs = _jobs(document)
    raw_options = document.get("global options")
    global_options = raw_options if isinstance(raw_options, dict) else {}
    options = [_options(global_options, job) for job in jobs]
    operation, read_percent = _operation(options[0], notes)
    if any(_operation(other, []) != (operation, read_percent) for other in options[1:]):
        notes.append("the jobs of this process differ in rw or rwmixread; it is named after the first")
    block_size = _block_size(options[0], operation, notes)
    if any(_block_size(other, operation, []) != block_size for other in options[1:]):
        notes.append("the jobs of this process differ in block size")
        block_size = None
    iodepth = _whole_option(options[0], "iodepth", 1)
    if depth_capped:
        iodepth = 1
        notes.append("fio capped the queue depth at 1: the engine is synchronous")
    numjobs = max(len(jobs), _whole_option(options[0], "numjobs", 1))

    measurements = []
    errors = []
    for index, job in enumerate(jobs):
        where = f"job {index}"
        errors.append(_error_number(job.get("error", 0)))
        of_job = []
        for direction in _DIRECTIONS:
            section = job.get(direction)
            if isinstance(section, dict):
                measurement = _measurement(section, direction, f"{where} {direction}", notes, numjobs * iodepth)
                if measurement is not None:
                    of_job.append(measurement)
        if not of_job and len(jobs) > 1:
            notes.append(f"{where} of {len(jobs)} did no I/O")
        measurements.extend(of_job)
    version = document.get("fio version")
    return Sample(
        operation=operation,
        read_percent=read_percent,
        block_size_bytes=block_size,
        numjobs=numjobs,
        iodepth=iodepth,
        runtime_s=max((m.runtime_s for m in measurements), default=0.0),
        end_unix_s=_end_unix_s(document),
        error=next((e for e in errors if e), 0),
        measurements=tuple(measurements),
        tool_version=_one_line(version) if isinstance(version, str) else None,
        notes=tuple(notes),
    )


def _jobs(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The jobs; of a client/server run those of the clients, without fio's own sum over all of them."""
    entries = document.get("jobs", document.get("client_stats"))
    if not isinstance(entries, list):
        raise OutputError("fio's JSON has no list of jobs")
    jobs: list[Mapping[str, Any]] = [job for job in entries if isinstance(job, dict)]
    if len(jobs) != len(entries):
        raise OutputError("fio's JSON has a job that is not an object")
    if "jobs" not in document:
        single = [job for job in jobs if job.get("jobname") != _ALL_CLIENTS]
        jobs = single or jobs
    if not jobs:
        raise OutputError("fio's JSON has no jobs in it")
    return jobs


def _options(global_options: Mapping[str, Any], job: Mapping[str, Any]) -> Mapping[str, str]:
    own = job.get("job options")
    merged = {**global_options, **(own if isinstance(own, dict) else {})}
    return {name: value for name, value in merged.items() if isinstance(value, str)}


def _operation(options: Mapping[str, str], notes: list[str]) -> tuple[str, int | None]:
    word = options.get("rw", options.get("readwrite", "read")).split(":")[0].strip().lower()
    word = {"readwrite": "rw", "randreadwrite": "randrw"}.get(word, word)
    if word not in _OPERATIONS:
        raise OutputError(f"fio's JSON names an unknown operation: rw={_one_line(word)!r}")
    if word not in _MIXED:
        return word, None
    if "rwmixread" in options:
        percent = _whole_option(options, "rwmixread", 50)
    elif "rwmixwrite" in options:
        percent = 100 - _whole_option(options, "rwmixwrite", 50)
    else:
        percent = 50
        notes.append("rwmixread is not given: fio's default of 50 holds")
    if not 0 <= percent <= 100:
        raise OutputError(f"fio's JSON gives a read share of {percent} %")
    return word, percent


def _block_size(options: Mapping[str, str], operation: str, notes: list[str]) -> int | None:
    """The block size; None when it varies (bssplit, bsrange, unlike sizes for the directions of a mix)."""
    if any(name in options for name in ("bssplit", "bsrange", "blocksize_range")):
        notes.append("the block size varies (bssplit or bsrange)")
        return None
    text = options.get("bs", options.get("blocksize", "4096"))
    words = text.split(",")
    sizes = [parse_size(word) if word.strip() else None for word in words]
    read = sizes[0]
    write = sizes[1] if len(sizes) > 1 and words[1].strip() else read
    trim = sizes[2] if len(sizes) > 2 and words[2].strip() else write
    if operation in _MIXED:
        size = read if read == write else None
    elif operation in _TRIM_AND_WRITE:
        size = trim if trim == write else None
    elif operation.endswith("trim"):
        size = trim
    else:
        size = write if operation.endswith("write") else read
    if size is None or size == 0:
        notes.append(f"no single block size in bs={_one_line(text)}")
        return None
    return size


def _whole_option(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    word = text.split(",")[0].strip()
    if not re.fullmatch(r"[0-9]{1,9}", word):
        raise OutputError(f"fio's JSON has an option that is not a whole number: {name}={_one_line(text)!r}")
    return int(word)


def _measurement(
    section: Mapping[str, Any], direction: str, where: str, notes: list[str], in_flight: int
) -> Measurement | None:
    runtime_ms = _number(section, "runtime", where, _MAX_RUNTIME_MS)
    iops = _number(section, "iops", where, _MAX_IOPS)
    if "bw_bytes" in section:
        bandwidth = _number(section, "bw_bytes", where, _MAX_BANDWIDTH)
    else:
        bandwidth = _number(section, "bw", where, _MAX_BANDWIDTH / 1024) * 1024
    if "total_ios" in section:
        total_ios = _count(section["total_ios"], f"{where} total_ios")
    else:  # before fio 2.2
        total_ios = round(iops * runtime_ms / 1000)
        if total_ios:
            notes.append(f"{where}: no total_ios in this fio's output; it is IOPS × runtime")
    if total_ios == 0:
        if iops or bandwidth:
            raise OutputError(f"{where}: {iops:g} IOPS from 0 I/Os cannot be")
        return None
    if runtime_ms == 0 or iops == 0:
        raise OutputError(f"{where}: {total_ios} I/Os but a runtime of {runtime_ms:g} ms and {iops:g} IOPS")
    expected = total_ios * 1000 / runtime_ms
    # fio 2.x truncates IOPS to whole numbers; a runtime of some ms is itself rounded.
    if abs(iops - expected) > 1 + 0.05 * expected and runtime_ms >= 100:
        notes.append(f"{where}: fio says {iops:.6g} IOPS, its I/Os over its runtime are {expected:.6g}")

    completion, unit_ns = _latency(section, "clat")
    if completion is None:
        raise OutputError(f"{where}: no completion latency (clat)")
    mean = _number(completion, "mean", f"{where} clat", _MAX_LATENCY_NS / unit_ns) * unit_ns
    stddev = _number(completion, "stddev", f"{where} clat", _MAX_LATENCY_NS / unit_ns) * unit_ns
    count = _latency_count(completion, total_ios, where, notes, in_flight)
    if mean == 0:
        raise OutputError(f"{where}: {total_ios} I/Os but no completion latency {_WHY_NO_LATENCY}")
    total, total_unit_ns = _latency(section, "lat")
    total_mean = total_stddev = None
    if total is not None:
        limit = _MAX_LATENCY_NS / total_unit_ns
        total_mean = _number(total, "mean", f"{where} lat", limit) * total_unit_ns or None
        total_stddev = _number(total, "stddev", f"{where} lat", limit) * total_unit_ns if total_mean else None
    return Measurement(
        direction=direction,
        total_ios=total_ios,
        iops=iops,
        bandwidth_bytes_per_s=bandwidth,
        runtime_s=runtime_ms / 1000,
        latency_mean_ns=mean,
        latency_stddev_ns=stddev,
        total_latency_mean_ns=total_mean,
        total_latency_stddev_ns=total_stddev,
        histogram=_histogram(completion, unit_ns, count, where, notes),
        percentiles_ns=_percentiles(completion, unit_ns, where),
        latency_count=count,
    )


def _latency(section: Mapping[str, Any], name: str) -> tuple[Mapping[str, Any] | None, int]:
    for suffix, unit_ns in _LATENCY_UNITS:
        value = section.get(name + suffix)
        if isinstance(value, dict):
            return value, unit_ns
    return None, 1


def _latency_count(latency: Mapping[str, Any], total_ios: int, where: str, notes: list[str], in_flight: int) -> int:
    """How many I/Os the mean was taken over.

    fio counts an I/O that was in flight when the ramp ended in the latencies but not in total_ios, so both may differ
    by what was in flight.
    """
    if "N" not in latency:
        return total_ios
    count = _count(latency["N"], f"{where} clat N")
    if count == 0:
        raise OutputError(f"{where}: {total_ios} I/Os but no completion latency {_WHY_NO_LATENCY}")
    if abs(count - total_ios) > max(0.01 * total_ios, in_flight):
        notes.append(f"{where}: latencies of {count} I/Os, but {total_ios} I/Os were done")
    return count


def _histogram(
    latency: Mapping[str, Any], unit_ns: int, count: int, where: str, notes: list[str]
) -> dict[int, int] | None:
    bins = latency.get("bins")
    if not isinstance(bins, dict) or not bins:
        return None
    histogram: dict[int, int] = {}
    try:
        for key, number in bins.items():
            if type(number) is not int or number < 0:
                raise OutputError(f"{where}: a histogram bin counts {_one_line(repr(number))} I/Os")
            if number:
                latency_ns = int(key) * unit_ns
                if not 0 <= latency_ns <= _MAX_LATENCY_NS:
                    raise OutputError(f"{where}: a histogram bin at {_one_line(key)}")
                histogram[latency_ns] = histogram.get(latency_ns, 0) + number
    except ValueError:
        raise OutputError(f"{where}: a histogram bin is not a whole number") from None
    total = sum(histogram.values())
    if total != count:
        notes.append(f"{where}: the histogram counts {total} I/Os, the mean {count}: the histogram is not used")
        return None
    return histogram


def _percentiles(latency: Mapping[str, Any], unit_ns: int, where: str) -> dict[float, float]:
    given = latency.get("percentile")
    if not isinstance(given, dict):
        return {}
    percentiles = {}
    for key in given:
        try:
            percent = float(key)
        except ValueError:
            continue  # fio 2.x pads the list with words in some builds
        if 0 < percent <= 100:
            percentiles[percent] = _number(given, key, f"{where} percentile", _MAX_LATENCY_NS / unit_ns) * unit_ns
    return percentiles


def _end_unix_s(document: Mapping[str, Any]) -> float | None:
    """When fio ended by its own clock: `timestamp_ms`, or whole seconds in older versions."""
    for name, per_second in (("timestamp_ms", 1000.0), ("timestamp", 1.0)):
        value = document.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
            return value / per_second
    return None


def _number(section: Mapping[str, Any], name: str, where: str, maximum: float) -> float:
    value = section.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OutputError(f"{where}: {name} is {_one_line(repr(value))}, not a number")
    if not 0 <= value <= maximum or not math.isfinite(value):
        shown = "negative" if value < 0 else "absurdly large"
        raise OutputError(f"{where}: {name} is {shown}")
    return float(value)


def _count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise OutputError(f"{where} is {_one_line(repr(value))}, not a whole number")
    if not 0 <= value <= _MAX_COUNT:
        raise OutputError(f"{where} is {'negative' if value < 0 else 'absurdly large'}")
    return value


def _error_number(value: object) -> int:
    """fio's own error number of a job; what is not a number counts as an error (1)."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 1
    return value
