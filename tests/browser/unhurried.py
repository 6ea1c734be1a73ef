"""A made-up engine that gives a test the time it needs: slow until it is told to hurry.

Knows nothing of what is tested.
"""

import threading

from fake_engine import FakeEngine

from engine import Event


class Unhurried(FakeEngine):
    """As the made-up engine; a step takes 200 ms until `hurry` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.hurry = threading.Event()

    def step(self, only: str | None = None) -> list[Event]:
        self.hurry.wait(0.2)
        return super().step(only)
