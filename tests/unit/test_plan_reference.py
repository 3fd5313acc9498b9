"""docs/plan.md says what the option models say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.registry import all_benchmarks
from orchestrator.plan import read_plan
from orchestrator.plan_options import CLUSTER_OPTIONS, ENDPOINT_OPTIONS, HOST_OPTIONS, POOL_PROFILE_OPTIONS
from orchestrator.plan_reference import reference
from orchestrator.points import lay_out

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "plan.md"


def test_the_page_is_up_to_date() -> None:
    """What users read is what the program does."""
    # When this fails: python -m orchestrator.plan_reference > docs/plan.md
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_the_command_prints_the_page() -> None:
    """The page can be made again by the command it names."""
    printed = subprocess.run(
        [sys.executable, "-m", "orchestrator.plan_reference"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert printed.stdout == reference()


def test_every_option_is_in_the_page_with_a_meaning() -> None:
    """No key is accepted that the reference does not explain."""
    page = reference()
    tables = (HOST_OPTIONS, CLUSTER_OPTIONS, POOL_PROFILE_OPTIONS, ENDPOINT_OPTIONS)
    options = [option for table in tables for option in table]
    for benchmark in all_benchmarks().values():
        options += [*benchmark.options, *(benchmark.workload_options or ())]
    for option in options:
        assert f"`{option.name}`" in page
        assert option.no_effect or option.description, option.name


def test_the_example_of_the_page_is_a_plan(tmp_path: Path) -> None:
    """What the introduction shows can be copied and run."""
    (example,) = re.findall(r"```yaml\n(.*?)```", reference(), re.DOTALL)
    path = tmp_path / "plan.yaml"
    path.write_text(example)
    plan = read_plan(path)
    assert plan.notices == ()
    assert len(lay_out(plan)) == 6
