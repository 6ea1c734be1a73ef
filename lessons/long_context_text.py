"""The document that the long-context lesson hands to the model: a harbour log, one paragraph a ship, as long as asked.

Knows nothing of tokens or engines. It is of our own writing; ships and cargoes are made up.
"""

from itertools import islice

_SHIPS = (
    "Maria Teresa", "Northern Light", "Golden Carp", "Old Commodore", "Blue Heron", "Saint Brendan", "Aurora",
    "Two Brothers", "Kestrel", "Prince of Riga", "Black Swan", "Hopewell", "Estrella", "Grey Goose", "Antelope",
    "Queen Ingrid", "Morning Star", "Fortuna", "Silver Spray", "Wanderer", "Sea Lark", "Iron Duke", "Perla", "Narwhal",
    "White Rose", "Albatross", "Lady Jane", "Concordia", "Red Falcon", "Amity", "Neptune", "Juno", "Cormorant",
    "Evening Tide", "Saga", "Royal Oak", "Pelican", "Esperance", "Harvest Moon", "Triton",
)  # fmt: skip
_HOMES = ("Lisbon", "Bergen", "Canton", "London", "Cork", "Riga", "Genoa", "Bilbao", "Hamburg", "Malta", "Odessa")
_CARGOES = (
    "300 barrels of olive oil", "80 tons of dried fish", "500 chests of black tea", "120 bales of grey wool",
    "40 casks of whisky", "900 planks of pine", "65 crates of lemons", "210 sacks of salt", "33 church bells",
    "18 grand pianos", "1,400 roof tiles", "72 coils of rope", "260 wheels of cheese",
)  # fmt: skip
_REMARKS = (
    "Her mate had broken an arm in the storm off the cape.", "She paid her dues in silver and left with the tide.",
    "Two cats and a parrot were counted with the crew.", "The cook sold soup on the quay until it was dark.",
    "Her sails were patched with a tablecloth.", "The captain asked for a doctor and was sent a barber.",
    "A stowaway of nine years was found among the ropes.",
)  # fmt: skip
_MONTHS = ("March", "April", "May")


def entries(number: int) -> list[str]:
    """The first entries of the log."""
    days = ((month, day) for month in _MONTHS for day in range(2, 31, 2))
    return [_entry(at, month, day) for at, (month, day) in enumerate(islice(days, number))]


def _entry(at: int, month: str, day: int) -> str:
    ship, home = _SHIPS[at % len(_SHIPS)], _HOMES[at * 7 % len(_HOMES)]
    cargo, remark = _CARGOES[at * 5 % len(_CARGOES)], _REMARKS[at * 3 % len(_REMARKS)]
    return f"{day} {month}. The {ship} of {home} came in with {cargo}. {remark}"


def document(number: int) -> str:
    """The log as one text."""
    return "\n\n".join(["Log of the harbour master.", *entries(number)])
