"""Errors that carry a code and values, so that a page can put them into its reader's language.

Knows nothing of what raises them.
"""


class EngineError(ValueError):
    """A refusal: `code` names the rule that was broken, `values` are the numbers and names involved.

    `str(error)` is an English sentence for logs and notebooks; lessons translate by `code`.
    """

    def __init__(self, code: str, sentence: str, **values: object) -> None:
        super().__init__(sentence)
        self.code = code
        self.values = values


class OutOfBlocks(EngineError):
    """The block pool cannot give `needed` blocks because only `free` are left; nothing has changed."""

    def __init__(self, needed: int, free: int) -> None:
        super().__init__("out_of_blocks", f"{needed} blocks are needed and {free} are free", needed=needed, free=free)
        self.needed = needed
        self.free = free
