"""`python -m engine.train NAME …`: `data` collects answers, every other name trains that drafter on them.

Knows nothing of the steps, only their names.
"""

import sys

HEADS = {
    "eagle": "EAGLE-1: one layer that continues the target's last hidden state",
    "eagle_unshifted": "the same without the shifted token: the ablation",
    "eagle3": "EAGLE-3: three layers read, no feature loss, training-time test",
}
STEPS = {"data": "prompts answered by the target: what all drafters are trained on"} | HEADS


def main(arguments: list[str]) -> int:
    """Run the named step; 2 with a sentence where there is none of that name."""
    if not arguments:
        print("Steps, each run by `python -m engine.train NAME`; `NAME --help` tells its options:")
        for name, purpose in STEPS.items():
            print(f"  {name:10} {purpose}")
        return 0
    if arguments[0] not in STEPS:
        print(f"There is no step {arguments[0]!r}. Known: {', '.join(STEPS)}.", file=sys.stderr)
        return 2
    from engine.train import data, heads  # what lists the steps need not import torch

    name, *options = arguments
    return heads.main(name, options) if name in HEADS else data.main(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
