"""Programs that write the generated pages of the documentation (`make docs`)."""
