"""What goes wrong for reasons that the user can mend, in one line."""


class Error(Exception):
    """What was wrong, where, and what to do."""
