"""The version of this program, in one place; setup.py reads this line as text."""

VERSION = "0.1.0"
