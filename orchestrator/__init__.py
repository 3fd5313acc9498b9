"""From a plan to a run: reading plans, laying out points, preflight, the run loop, progress."""
