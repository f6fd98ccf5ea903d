"""Programs for maintainers: nothing here is part of the package or of its tests."""
