"""Table of contents: chapters in reading order, each with its lessons. A lesson is a module of this package.

Shared by all lessons: words, frame, plots, stage, live. The page of a chapter is made by lessons.page.
"""

CHAPTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("speculation", ("live_lab", "acceptance")),
    ("drafting", ("drafters", "trees")),
    ("self_speculation", ("jacobi", "long_context")),
    ("memory", ("paging",)),
)
