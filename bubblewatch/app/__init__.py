"""Configuration and wiring: the only place that constructs real things."""
