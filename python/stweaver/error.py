"""The one exception of this package."""


class Error(RuntimeError):
    """Something cannot be done here; its text is one line: what, where, and what to do about it."""
