"""Measurements: `python -m engine.bench NAME` prints one. Knows nothing of lessons."""
