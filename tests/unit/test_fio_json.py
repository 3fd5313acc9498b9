"""What fio prints, real and broken, becomes the right numbers or one clear reason."""

from __future__ import annotations

import gzip
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fio_json import MAX_OUTPUT_BYTES, parse_fio, parse_size
from benchmarks.model import OutputError, Sample
from post_processing.combine import quantiles

DATA = Path(__file__).parent / "data" / "fio"
REAL = sorted(path.name.removesuffix(".gz") for path in DATA.iterdir())


def real(name: str) -> bytes:
    """Output of fio 3.33 as it came."""
    packed = DATA / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (DATA / name).read_bytes()


def latency(mean: float = 2000.0, count: int = 100, **more: Any) -> dict[str, Any]:
    return {"min": 1, "max": 10_000, "mean": mean, "stddev": 500.0, "N": count, **more}


def document(**changes: Any) -> dict[str, Any]:
    """A small whole fio document with one reading job; `changes` replace keys of its read section."""
    read = {
        "io_bytes": 409600,
        "bw_bytes": 204800,
        "bw": 200,
        "iops": 50.0,
        "runtime": 2000,
        "total_ios": 100,
        "clat_ns": latency(),
        "lat_ns": latency(2100.0),
    }
    return {
        "fio version": "fio-3.33",
        "timestamp": 1000,
        "timestamp_ms": 1000500,
        "global options": {"rw": "randread", "bs": "4k", "iodepth": "8"},
        "jobs": [{"jobname": "a", "error": 0, "job options": {}, "read": {**read, **changes}}],
    }


def parsed(value: object) -> Sample:
    return parse_fio(json.dumps(value).encode())[0]


def reason(output: bytes | dict[str, Any]) -> str:
    """Why an output is refused; always one printable line."""
    with pytest.raises(OutputError) as caught:
        parse_fio(output if isinstance(output, bytes) else json.dumps(output).encode())
    text = str(caught.value)
    assert text
    assert text.isprintable()
    return text


@pytest.mark.parametrize("name", REAL)
def test_real_output_gives_what_an_independent_reading_gives(name: str) -> None:
    """IOPS, bandwidth, counts and latencies of every job are those that stand in the last document."""
    raw = real(name).decode()
    if "{" not in raw:
        assert "signal 2" in reason(raw.encode())
        return
    document: dict[str, Any] = {}
    position = raw.index("{")
    while position >= 0:
        document, end = json.JSONDecoder().raw_decode(raw, position)
        position = raw.find("{", end)
    jobs = document.get("jobs") or [j for j in document["client_stats"] if j["jobname"] != "All clients"]
    active = [job[way] for job in jobs for way in ("read", "write", "trim") if job[way]["total_ios"]]
    sample, found = parse_fio(raw.encode())
    assert json.loads(found) == document
    assert sample.total_ios == sum(way["total_ios"] for way in active)
    assert [m.iops for m in sample.measurements] == [way["iops"] for way in active]
    assert [m.bandwidth_bytes_per_s for m in sample.measurements] == [way["bw_bytes"] for way in active]
    assert [m.latency_mean_ns for m in sample.measurements] == [way["clat_ns"]["mean"] for way in active]
    assert [m.latency_count for m in sample.measurements] == [way["clat_ns"]["N"] for way in active]
    assert sample.runtime_s == max((way["runtime"] for way in active), default=0) / 1000


@pytest.mark.parametrize(
    "name", ["jsonplus_rbd_client1.json", "jsonplus_4jobs_one_process.json", "during_recovery.json"]
)
def test_percentiles_of_the_bins_are_fios_own(name: str) -> None:
    """The histogram's quantiles are the percentiles that fio prints beside it."""
    sample, _ = parse_fio(real(name))
    for measurement in sample.measurements:
        assert measurement.histogram is not None
        own = measurement.percentiles_ns
        assert quantiles(measurement.histogram, list(own)) == own


def test_mixed_read_and_write_are_two_measurements_of_one_sample() -> None:
    """A 70/30 mix of four jobs gives eight measurements and the mix of the plan."""
    sample, _ = parse_fio(real("jsonplus_4jobs_one_process.json"))
    assert (sample.operation, sample.read_percent, sample.block_size_bytes) == ("randrw", 70, 4096)
    assert [m.direction for m in sample.measurements] == ["read", "write"] * 4
    assert sample.numjobs == 4


def test_options_of_the_job_stand_over_the_global_ones() -> None:
    """fio writes options of the command line under the job, where they win."""
    value = document()
    value["jobs"][0]["job options"] = {"rw": "read", "bs": "1M", "iodepth": "2"}
    sample = parsed(value)
    assert (sample.operation, sample.block_size_bytes, sample.iodepth) == ("read", 1 << 20, 2)


def test_all_clients_of_a_client_server_run_are_not_counted_twice() -> None:
    """fio's own sum over the clients is left out."""
    sample, _ = parse_fio(real("client_server_rbd.stdout"))
    assert sample.total_ios == 22459 + 37042
    assert all(m.histogram for m in sample.measurements)


def test_the_last_of_several_documents_counts_and_is_noted() -> None:
    """--status-interval prints cumulative documents: the last one is the result."""
    sample, found = parse_fio(real("status_interval.stdout"))
    assert sample.total_ios == 11228
    assert any("11 documents" in note for note in sample.notes)
    assert json.loads(found)["timestamp_ms"] == 1795189847958


def test_a_truncated_last_document_leaves_the_one_before_and_is_noted() -> None:
    """What was cut off is said, and what is whole is used."""
    whole = json.dumps(document(), indent=1).encode()
    sample, found = parse_fio(whole + b"\n" + whole[:300])
    assert found == whole
    assert any("truncated" in note for note in sample.notes)


def test_text_around_the_document_does_not_matter() -> None:
    """Warnings before and fio's normal output after the JSON are passed over; the slice is the JSON alone."""
    whole = json.dumps(document(), indent=1).encode()
    sample, found = parse_fio(
        "note: ü both {iodepth\n".encode() + whole + b"\n  lat (usec): min=1\nRun status {group 0}\n"
    )
    assert found == whole
    assert sample.total_ios == 100


def test_a_document_that_begins_within_a_line_is_found() -> None:
    """A prompt or time stamp may stand before the brace."""
    assert parse_fio(b"12:00:01 " + json.dumps(document()).encode())[0].total_ios == 100


def test_a_capped_queue_depth_is_one() -> None:
    """A synchronous engine keeps one I/O outstanding whatever iodepth says."""
    sample, _ = parse_fio(real("note_before_json.stdout"))
    assert sample.iodepth == 1


def test_a_missing_image_is_a_sample_without_io() -> None:
    """fio exits with 1 but writes a valid document with error 0: it must not look like a measurement."""
    sample, _ = parse_fio(real("no_such_image.stdout"))
    assert (sample.total_ios, sample.measurements, sample.error) == (0, (), 0)


def test_ended_by_a_signal_is_noted() -> None:
    """fio ended early still writes its document; the sample says so."""
    assert any("signal 15" in note for note in parse_fio(real("sigterm.stdout"))[0].notes)


def test_a_job_that_stood_still_is_noted() -> None:
    """One of two jobs without I/O does not vanish."""
    value = document()
    value["jobs"].append(
        {"jobname": "b", "error": 5, "read": {**value["jobs"][0]["read"], "total_ios": 0, "iops": 0, "bw_bytes": 0}}
    )
    sample = parsed(value)
    assert any("job 1 of 2 did no I/O" in note for note in sample.notes)
    assert sample.error == 5


def test_fio_2_counts_in_microseconds_and_kibibytes() -> None:
    """`clat` without a unit is µs and `bw` KiB/s."""
    value = document()
    read = value["jobs"][0]["read"]
    for key in ("clat_ns", "lat_ns", "bw_bytes"):
        del read[key]
    read["clat"] = {"mean": 250.5, "stddev": 10.25, "percentile": {"99.000000": 300, "0.00": 0}}
    read["lat"] = {"mean": 260.0, "stddev": 11.0}
    (measurement,) = parsed(value).measurements
    assert measurement.latency_mean_ns == 250_500
    assert measurement.latency_stddev_ns == 10_250
    assert measurement.total_latency_mean_ns == 260_000
    assert measurement.percentiles_ns == {99.0: 300_000}
    assert measurement.bandwidth_bytes_per_s == 200 * 1024
    assert measurement.latency_count == measurement.total_ios


def test_fio_without_total_ios_gives_them_from_rate_and_time() -> None:
    """Before fio 2.2 only IOPS and runtime are printed."""
    value = document()
    del value["jobs"][0]["read"]["total_ios"]
    sample = parsed(value)
    assert sample.total_ios == 100
    assert any("no total_ios" in note for note in sample.notes)


def test_a_histogram_that_does_not_add_up_is_not_used() -> None:
    """Percentiles of a histogram that counts other I/Os than the mean would be wrong."""
    sample = parsed(document(clat_ns=latency(bins={"2000": 99})))
    assert sample.measurements[0].histogram is None
    assert any("histogram counts 99" in note for note in sample.notes)


@pytest.mark.parametrize(
    ("output", "part"),
    [
        (b"", "printed nothing"),
        (b"\0\0 \n", "printed nothing"),
        (b"fio: engine rbd not loadable\n", "engine rbd not loadable"),
        (b"\nfio: terminating on signal 2\n", "signal 2"),
        (b'{"jobs": [{"a": 1}', "truncated at byte 18"),
        (b'{"jobs" [}\n', "malformed at byte 8"),
        (b"[1, 2]", "no JSON"),
        (b'{"something": "else"}', "only other JSON"),
        (b'{"fio version": "fio-3.33"}', "no list of jobs"),
        (b'{"jobs": []}', "no jobs"),
        (b'{"jobs": [3]}', "not an object"),
        (b'{"jobs": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"jobs": ' + b"9" * 5000 + b"}", "cannot be read"),
    ],
)
def test_unusable_output_says_why(output: bytes, part: str) -> None:
    """Every way in which there is no result has its own reason."""
    assert part in reason(output)


def test_more_than_any_fio_prints_is_refused_unread() -> None:
    """200 MB is not an instance's output."""
    assert "bytes" in reason(b" " * (MAX_OUTPUT_BYTES + 1))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"iops": -1.0}, "iops is negative"),
        ({"iops": math.nan}, "NaN"),
        ({"iops": math.inf}, "Infinity"),
        ({"iops": "50"}, "not a number"),
        ({"iops": True}, "not a number"),
        ({"iops": 1e300}, "absurdly large"),
        ({"iops": 10**400}, "absurdly large"),
        ({"total_ios": -5}, "negative"),
        ({"total_ios": 1.5}, "not a whole number"),
        ({"total_ios": 0}, "50 IOPS from 0 I/Os"),
        ({"runtime": 0}, "runtime of 0 ms"),
        ({"clat_ns": None}, "no completion latency"),
        ({"clat_ns": latency(0.0, 0)}, "no completion latency"),
        ({"clat_ns": latency(-1.0)}, "mean is negative"),
        ({"clat_ns": latency(1e16)}, "absurdly large"),
        ({"clat_ns": latency(bins={"2000": -1})}, "bin counts"),
        ({"clat_ns": latency(bins={"x": 100})}, "not a whole number"),
        ({"bw_bytes": -1}, "bw_bytes is negative"),
    ],
)
def test_numbers_that_cannot_be_true_are_refused(changes: dict[str, Any], part: str) -> None:
    """A wrong number is worse than none."""
    assert part in reason(document(**changes))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("4096B", 4096),
        ("4k", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        ("1M", 1 << 20),
        ("x", None),
        ("", None),
    ],
)
def test_sizes_as_fio_writes_them(text: str, size: int | None) -> None:
    """The same block size is written in many ways."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"rw": "randrw", "bs": "4k,8k"}, None),
        ({"rw": "randrw", "bs": "4k,4096"}, 4096),
        ({"rw": "write", "bs": "4k,8k"}, 8192),
        ({"rw": "write", "bs": "16k"}, 16384),
        ({"rw": "read", "bssplit": "4k/50:8k/50"}, None),
        ({"rw": "read"}, 4096),
    ],
)
def test_one_block_size_or_none(options: dict[str, str], size: int | None) -> None:
    """Where directions have unlike sizes there is no single one."""
    assert parsed({**document(), "global options": options}).block_size_bytes == size


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rw": "randrw", "rwmixread": "30"}, ("randrw", 30)),
        ({"rw": "readwrite", "rwmixwrite": "30"}, ("rw", 70)),
        ({"rw": "rw"}, ("rw", 50)),
        ({"rw": "randread:8", "rwmixread": "70"}, ("randread", None)),
        ({"readwrite": "randtrim"}, ("randtrim", None)),
    ],
)
def test_operation_and_mix(options: dict[str, str], expected: tuple[str, int | None]) -> None:
    """The mix is given for mixed operations only."""
    sample = parsed({**document(), "global options": options})
    assert (sample.operation, sample.read_percent) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_no_bytes_whatever_escape_as_another_error(output: bytes) -> None:
    """Garbage ends in OutputError."""
    with suppress(OutputError):
        parse_fio(output)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_document_is_refused_or_gives_sane_numbers(data: st.DataObject) -> None:
    """One value anywhere replaced by anything: OutputError, or finite non-negative numbers."""
    value = document(clat_ns=latency(bins={"1500": 50, "2500": 50}, percentile={"99.000000": 2500}))
    holder: Any = value
    while True:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if isinstance(holder[key], dict | list) and holder[key] and data.draw(st.booleans()):
            holder = holder[key]
            continue
        holder[key] = data.draw(JSON)
        break
    try:
        sample, _ = parse_fio(json.dumps(value).encode())
    except OutputError:
        return
    for m in sample.measurements:
        for number in (m.iops, m.bandwidth_bytes_per_s, m.latency_mean_ns, m.latency_stddev_ns, m.runtime_s):
            assert math.isfinite(number)
            assert number >= 0
        assert m.histogram is None or sum(m.histogram.values()) == m.latency_count


@given(st.integers(0, 17_981), st.binary(min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_real_output_with_overwritten_bytes_never_ends_in_another_error(position: int, damage: bytes) -> None:
    """Bytes flipped on disk end in OutputError or in numbers, never in a traceback."""
    output = bytearray(real("jsonplus_rbd_client1.json"))
    output[position : position + len(damage)] = damage
    with suppress(OutputError):
        parse_fio(bytes(output))
