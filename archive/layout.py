"""Names within an archive that this project writes (docs/archive.md)."""

from __future__ import annotations

LOG_NAME = "cbt.log"
RESULTS = "results"
PLAN_NAME = "cbt_config.yaml"
RUN_NAME = "run.json"
BENCHMARK_CONFIG_NAME = "benchmark_config.yaml"
LEDGER_NAME = "created.jsonl"
BALANCER_OFF_NAME = "balancer-off"
LOCK_NAME = ".cbt-lock"
STAGING = ".cbt-staging"
SUPERSEDED = "superseded"
IDLE_PREFIX = "idle_monitoring."

RUN_SCHEMA = 1


def session_name(number: int) -> str:
    """The file with the facts of one call of the program; a run that was taken up again has several."""
    return f"session-{number:02d}.json"


def output_name(number: int, host: str) -> str:
    """What instance `number` of a host printed."""
    return f"output.{number}.{host}"


def json_output_name(number: int, host: str) -> str:
    """The JSON document within it."""
    return f"json_output.{number}.{host}"


def monitor_folder_name(monitor: str, host: str) -> str:
    """The folder with what a monitor of a host wrote, in a point's folder."""
    return f"{monitor}.{host}"


def idle_folder_name(host: str) -> str:
    """The folder with what the monitors of a host saw of the idle cluster, in the combination's folder."""
    return f"{IDLE_PREFIX}{host}"
