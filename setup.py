"""What is installed: the packages by name, what they need, and the commands."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent


def version() -> str:
    """The version as orchestrator/version.py states it, read as text so that nothing has to be importable yet."""
    found = re.search(r'^VERSION = "([^"]+)"$', (ROOT / "orchestrator" / "version.py").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit('orchestrator/version.py has no line VERSION = "…"')
    return found.group(1)


setup(
    name="cbt",
    version=version(),
    description="Benchmarks a Ceph cluster from a test plan and draws its response curves",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=[
        "archive",
        "archive.layouts",
        "benchmarks",
        "cluster",
        "cluster.deploy",
        "cluster.endpoints",
        "cluster.monitors",
        "cluster.transports",
        "orchestrator",
        "post_processing",
        "post_processing.reports",
        "tools",
    ],
    py_modules=["cbt"],
    package_data={"cluster": ["*.sh"]},
    include_package_data=False,
    install_requires=[
        "PyYAML>=6.0",
        "paramiko>=3.4",
        "reportlab>=4.0",
        "tabulate>=0.9",
    ],
    extras_require={
        "dev": [
            "hypothesis>=6.100",
            "import-linter>=2.0",
            "mypy>=1.11",
            "pypdf>=4.0",
            "pytest>=8.0",
            "ruff>=0.6",
            "setuptools>=68",
            "types-PyYAML>=6.0",
            "types-paramiko>=3.4",
            "types-tabulate>=0.9",
        ],
    },
    entry_points={
        "console_scripts": [
            "cbt = cbt:main",
            "cbt-performance-report = tools.generate_performance_report:main",
            "generate-performance-report = tools.generate_performance_report:main",
        ],
    },
)
