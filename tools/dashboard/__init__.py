"""Programs for the dashboard: its pictures in the documentation, its vendored files."""
