"""Benchmarks: measured in one run on one server, side by side, as ratios."""
