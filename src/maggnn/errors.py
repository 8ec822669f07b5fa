"""The one exception a user's mistake raises: one line that says what, where and what to do."""


class InputError(ValueError):
    """Something the user gave cannot be used; the command line prints it and exits with code 2."""
