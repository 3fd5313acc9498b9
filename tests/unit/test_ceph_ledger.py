"""The ledger: what this run makes is on disk before it is made, whatever happens in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.ledger import Ledger, LedgerError, Thing

POOL = Thing("fsid-1", "pool", "a 'pool'\n{")
IMAGE = Thing("fsid-1", "image", "vol", "a 'pool'\n{")


def test_a_later_run_reads_what_an_earlier_one_wrote(tmp_path: Path) -> None:
    """Intended, created and filled survive the process; removed things are gone; other clusters are kept apart."""
    first = Ledger(tmp_path / "ledger")
    first.intend(POOL)
    first.created(POOL, "7")
    first.intend(IMAGE)
    first.created(IMAGE, "abc")
    first.filled(IMAGE)
    first.intend(Thing("fsid-2", "pool", "other"))
    later = Ledger(tmp_path / "ledger")
    assert later.entries() == first.entries()
    assert [(e.thing.name, e.ident, e.created, e.filled) for e in later.entries("fsid-1")] == [
        (POOL.name, "7", True, False),
        ("vol", "abc", True, True),
    ]
    later.removed(IMAGE)
    assert Ledger(tmp_path / "ledger").find(IMAGE) is None


def test_an_image_made_anew_is_no_longer_filled(tmp_path: Path) -> None:
    """Prefill of the image before says nothing about the one that took its name."""
    ledger = Ledger(tmp_path / "ledger")
    for _ in range(2):
        ledger.intend(IMAGE)
        ledger.created(IMAGE, "abc")
    ledger.filled(IMAGE)
    ledger.intend(IMAGE)
    entry = Ledger(tmp_path / "ledger").find(IMAGE)
    assert entry is not None
    assert (entry.created, entry.filled) == (False, False)


def test_a_line_cut_short_anywhere_loses_only_itself(tmp_path: Path) -> None:
    """After a crash in the middle of a write the rest can be read, and writing goes on."""
    path = tmp_path / "ledger"
    Ledger(path).intend(POOL)
    whole = path.read_bytes()
    Ledger(path).created(POOL, "7")
    both = path.read_bytes()
    for length in range(len(whole), len(both)):
        path.write_bytes(both[:length])
        ledger = Ledger(path)
        entry = ledger.find(POOL)
        assert entry is not None
        assert not entry.created
        ledger.intend(IMAGE)
        assert [e.thing for e in Ledger(path).entries()] == [POOL, IMAGE], length


def test_something_else_than_a_ledger_is_refused_by_line(tmp_path: Path) -> None:
    """A foreign file is never taken for a list of things that may be removed."""
    path = tmp_path / "ledger"
    path.write_text("dear diary\n")
    with pytest.raises(LedgerError, match=r"ledger:1: not a line"):
        Ledger(path)
    with pytest.raises(LedgerError, match="cannot be written down"):
        Ledger(tmp_path / "no" / "folder").intend(POOL)


def test_a_trimmed_image_is_no_longer_filled_but_still_ours(tmp_path: Path) -> None:
    """After a mark `emptied` the image is filled again, and still removed at the end; older ledgers read as ever."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.intend(IMAGE)
    ledger.created(IMAGE, "abc")
    ledger.filled(IMAGE)
    ledger.emptied(IMAGE)
    entry = Ledger(tmp_path / "ledger").find(IMAGE)
    assert entry is not None
    assert (entry.ident, entry.created, entry.filled) == ("abc", True, False)
    ledger.filled(IMAGE)
    assert [e.filled for e in Ledger(tmp_path / "ledger").entries()] == [True]
