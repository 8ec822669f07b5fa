"""The documentation site: what mkdocs is told about settings, and the recorded player of "How it works"."""
