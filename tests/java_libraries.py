"""The Java libraries that tests and benchmarks fetch: what they must be."""

from pathlib import Path

PINS = Path(__file__).with_name("jars.sha512")
"""Their SHA-512 by file name; those of the broker are pinned in the package."""
