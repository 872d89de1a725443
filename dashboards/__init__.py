"""Grafana dashboards: Python source and the JSON that it builds. Not part of the installed program."""
