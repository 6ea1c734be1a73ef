"""`python -m engine.train NAME …`: `data` collects answers, every other name makes that drafter of them.

Knows nothing of the steps, only their names.
"""

import sys

from engine.commands import dispatch
from engine.train import data, heads, ngram_table

HEADS = {
    "eagle": "EAGLE-1: one layer that continues the target's last hidden state",
    "eagle_unshifted": "the same without the shifted token: the ablation",
    "eagle3": "EAGLE-3: three layers read, no feature loss, training-time test",
    "medusa": "Medusa-1: four heads that each guess a place ahead",
    "draft_lm": "a tiny Llama between the target's own embedding and words",
}
STEPS = {
    "data": "prompts answered by the target: what all drafters are trained on",
    "ngram_table": "which token most often followed two others, or one: counted, not trained",
} | HEADS
OTHERS = {"data": data.main, "ngram_table": ngram_table.main}


def main(arguments: list[str]) -> int:
    """Run the named step, or list them; as `engine.commands.dispatch`."""

    def run(name: str, options: list[str]) -> int:
        return heads.main(name, options) if name in HEADS else OTHERS[name](options)

    return dispatch("engine.train", STEPS, arguments, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
