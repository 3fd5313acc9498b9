"""The plans in example/ are where users start, so each of them must be a good one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.plan import read_plan
from orchestrator.points import lay_out

EXAMPLE = Path(__file__).resolve().parents[2] / "example"
PLANS = sorted(EXAMPLE.glob("*.yaml"))

DEMO_LIMIT_S = 180
DEMO_FIXED_COSTS_S = 40
"""Cluster, prefill and report on two cores."""
OVERHEAD_PER_POINT_S = 0.8
"""What the issue allows at four volumes."""


@pytest.mark.parametrize("path", PLANS, ids=[path.name for path in PLANS])
def test_every_example_is_read_without_a_notice(path: Path) -> None:
    """An example with a key that has no effect would teach it."""
    plan = read_plan(path)
    assert plan.notices == ()
    assert [point for point in lay_out(plan) if point.reported]


def test_the_demo_keeps_to_three_minutes() -> None:
    """Adding points to the quick start must not break the promise of make demo."""
    points = lay_out(read_plan(EXAMPLE / "quickstart.yaml"))
    measuring_s = sum(point.settings.integer("ramp") + point.settings.integer("time") for point in points)
    assert measuring_s + OVERHEAD_PER_POINT_S * len(points) + DEMO_FIXED_COSTS_S <= DEMO_LIMIT_S


def test_preconditioning_is_not_reported() -> None:
    """The example for an existing cluster fills its images in a workload that no curve shows."""
    points = lay_out(read_plan(EXAMPLE / "existing_cluster.yaml"))
    assert {point.workload for point in points if not point.reported} == {"precond"}
