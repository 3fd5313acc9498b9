"""Whatever stands in a file, reading it ends in a plan or in PlanErrors."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.registry import all_benchmarks
from orchestrator.plan import PlanErrors, read_plan
from orchestrator.plan_options import CLUSTER_OPTIONS, HOST_OPTIONS
from orchestrator.points import lay_out

PLANS = Path(__file__).parent / "data" / "plans"
SEEDS = [path.read_text() for path in sorted(PLANS.glob("*.yaml"))]
FRAGMENTS = [
    *"{}[]:,&*!|>%@`'\"#-?~",
    "<<: *a",
    "&a ",
    "*a",
    "!!binary x",
    "- ",
    ": ",
    "\n",
    "\t",
    "\0",
    "\ufeff",
    "010",
    "1:30",
    "1e3",
    ".inf",
    "no",
    "9" * 5000,
    "--- ",
    "%YAML 9.9\n",
    '"\\UFFFFFFFF"',
]
OPTION_NAMES = sorted(
    {option.name for benchmark in all_benchmarks().values() for option in benchmark.options}
    | {option.name for option in (*CLUSTER_OPTIONS, *HOST_OPTIONS)}
    | {"pool_profiles", "erasure_profiles", "workloads", "x_cmd"}
)
ODD_VALUES = st.recursive(
    st.sampled_from(
        ["", "~", "0", "-1", "010", "1:30", "1e3", ".inf", "no", "x", "'x'", "4k", "a/b", "'\"'", "2.5", "''"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(["a", "k", "numjobs", "blocksize", "erasure_k"]), inner, max_size=2).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"
        ),
    ),
    max_leaves=5,
)


def only_plan_errors(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "plan.yaml")
        path.write_bytes(content)
        lines = mistakes(path)
        assert all(line.startswith(f"{path}:") and "\n" not in line and "; " in line for line in lines)


def mistakes(path: Path) -> tuple[str, ...]:
    try:
        lay_out(read_plan(path))
    except PlanErrors as errors:
        return errors.lines
    return ()


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
@settings(max_examples=200, deadline=None)
def test_random_files(content: bytes) -> None:
    """No bytes make the reader fail in another way."""
    only_plan_errors(content)


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), st.sampled_from(FRAGMENTS)), min_size=1, max_size=4),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_plans(seed: str, damages: list[tuple[float, int, str]]) -> None:
    """A plan with anything cut out of it and anything put in is a plan or a list of mistakes."""
    for place, cut, fragment in damages:
        at = int(place * len(seed))
        seed = seed[:at] + fragment + seed[at + cut :]
    only_plan_errors(seed.encode("utf-8", "replace"))


@given(
    st.dictionaries(st.sampled_from(OPTION_NAMES), ODD_VALUES, max_size=6),
    st.dictionaries(st.sampled_from(OPTION_NAMES), ODD_VALUES, max_size=6),
    st.sampled_from(sorted(all_benchmarks())),
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_under_any_key(cluster: dict[str, str], options: dict[str, str], benchmark: str) -> None:
    """Every key takes every shape of value, or says why not."""
    lines = ["cluster:", "  clients: [a]"]
    lines += [f"  {key}: {value}" for key, value in cluster.items() if key != "clients"]
    lines += ["benchmarks:", f"  {benchmark}:", *(f"    {key}: {value}" for key, value in options.items())]
    only_plan_errors("\n".join(lines).encode())
