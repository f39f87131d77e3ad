"""How much may be held before memory is moved."""

from stweaver.error import Error


def bytes_of(gib: float | str) -> int:
    """Turn GiB into bytes; Error for what is no number of GiB."""
    try:
        held = int(float(gib) * 2**30)
    except (ValueError, OverflowError):
        held = 0
    if not 0 < held < 2**60:
        raise Error(f"hold={gib}: must be a number of GiB above 0, as in hold=20")
    return held
