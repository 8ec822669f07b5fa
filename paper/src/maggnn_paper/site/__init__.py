"""The documentation site: the settings' descriptions for mkdocs, and the recorded player of "How it works"."""
