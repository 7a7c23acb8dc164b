"""The refusal of a query."""

from __future__ import annotations

from ..errors import InvalidCall


class Refused(InvalidCall):
    """A query can't be asked: it is not valid, or can't be divided over partitions. The text is the reason."""

    #: A node adds no place in its code to the text.
    is_complete = True


def refuse(why: str) -> Refused:
    return Refused(f"the query is refused: {why}")
