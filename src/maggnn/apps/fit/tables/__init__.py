"""Tables of molecules of one's own: cross-validation, and readers of further kinds of files."""
