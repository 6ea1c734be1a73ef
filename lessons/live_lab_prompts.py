"""The prompts that the lab offers, each with the settings under which it proves its point.

Knows nothing of engines and pages; what a prompt proves is said in the lesson's words, under "stage.preset.NAME".
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """A prompt and its settings. `name` is also the name of its recorded run, "live_lab.NAME"."""

    name: str
    prompt: str
    drafter: str
    draft_length: int
    temperature: float
    length: int


_RAINBOW = "Explain how a rainbow forms, and when it can be seen."

_RECORD = """Here is the log of the harbour. List every ship with its flag and its cargo, one per line.

The Maria Teresa, under the flag of Portugal, arrived with 300 barrels of olive oil. The Northern Light, under the \
flag of Norway, arrived with 80 tons of dried fish. The Golden Carp, under the flag of China, arrived with 500 chests \
of black tea. The Old Commodore, under the flag of England, arrived with 120 bales of grey wool."""

_FUNCTION = """Add a docstring to this function and write the whole function again.

def moving_average(values, window):
    total = sum(values[:window])
    averages = [total / window]
    for index in range(window, len(values)):
        total += values[index] - values[index - window]
        averages.append(total / window)
    return averages
"""

_PARAGRAPH = """Repeat this paragraph word for word:

The old lighthouse on the northern cape was built in 1828. It stands forty metres high and its lamp can be seen from \
twenty miles away. Three keepers lived there with their families, and every night one of them climbed the stairs to \
light the lamp."""

PRESETS = (
    Preset("chat", _RAINBOW, "eagle3:chain", 2, 0.8, 96),
    Preset("copy", _RECORD, "ngram", 6, 0.0, 96),
    Preset("layers", _RAINBOW, "layer_skip", 4, 0.8, 96),
    Preset("repeat", _PARAGRAPH, "ngram", 8, 0.0, 96),
    Preset("code", _FUNCTION, "ngram", 4, 0.0, 128),
    Preset("lookup", "Write a short poem about a lighthouse in winter.", "ngram", 4, 0.8, 96),
    Preset("chinese", "请重复下面这句话：春天来了，花园里的花都开了，孩子们在草地上跑来跑去。", "ngram", 4, 0.0, 64),
)
FIRST = PRESETS[0]


def preset(name: str) -> Preset:
    """The preset of that name, the first where there is none."""
    return next((item for item in PRESETS if item.name == name), FIRST)
