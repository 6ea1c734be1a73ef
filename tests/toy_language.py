"""A made-up language model for tests: a target that follows a script, and a draft that blurs it.

Knows nothing of rounds, acceptance or events. Pieces include what a page must survive: HTML, bytes, bidi marks.
"""

import random

SCRIPT_TEXT = (
    "Light| from| the| sun| looks| white|,| but| it| is| a| mix| of| every| colour|.| When| it| enters| the| air|,"
    "| it| meets| mole|cules| of| nit|rogen| and| oxy|gen|,| which| are| much| smaller| than| its| wavel|ength|.|"
    "\n\n|They| send| a| little| of| it| off| in| all| directions|,| and| they| do| so| far| more| strongly| for|"
    " short| waves| than| for| long| ones|:| as| the| fourth| power| of| the| freq|uency|.| So| blue| reaches| the|"
    " eye| from| every| part| of| the| sky|,| while| red| goes| nearly| straight| on|.| At| sunset| the| path| is|"
    " long|,| the| blue| is| gone|,| and| what| is| left| is| red|.|\n"
)
SCRIPT = tuple(SCRIPT_TEXT.split("|"))
STRANGE = ("<b>", "</b>", "<img src=x onerror=alert(1)>", "&amp;", "⟨F0⟩", "⟨9F⟩", "\t", "\u202e", "天空", " 是", "蓝")
FILLER = (" the", " a", " of", ",", ".", " and", " very", " light", " colour", " waves", " air", " is", " it", " so")
PIECES = tuple(dict.fromkeys((*SCRIPT, *FILLER, *STRANGE)))
IDS = {piece: index for index, piece in enumerate(PIECES)}
Law = dict[int, float]


def target_law(seed: int, prefix: list[int], is_greedy: bool) -> Law:
    """Most of the mass on the script's next piece, the rest on ten others; both depend on the prefix."""
    coins = random.Random(f"{seed} {len(prefix)} {prefix[-1:]}")
    wanted = IDS[SCRIPT[len(prefix) % len(SCRIPT)]]
    sure = coins.choice((0.6, 0.8, 0.92, 0.97, 0.99))
    if is_greedy:
        return {wanted if coins.random() < 0.9 else IDS[coins.choice(FILLER)]: 1.0}
    law = dict.fromkeys(coins.sample(range(len(PIECES)), 10), (1 - sure) / 10)
    law[wanted] = law.get(wanted, 0.0) + sure
    return law


def draft_law(seed: int, prefix: list[int], target: Law, sharpness: float, is_one_hot: bool) -> Law:
    """A blend of the target's law and of fillers; `sharpness` 1 is close to the target, 0 knows nothing."""
    coins = random.Random(f"draft {seed} {len(prefix)}")
    if is_one_hot:
        return {max(target, key=target.get) if coins.random() < sharpness else IDS[coins.choice(FILLER)]: 1.0}
    keep = min(1.0, sharpness * (0.4 + coins.random()))
    law = {token: keep * p for token, p in target.items()}
    for piece in coins.sample(FILLER, 4):
        law[IDS[piece]] = law.get(IDS[piece], 0.0) + (1 - keep) / 4
    return law


def draw(law: Law, coins: random.Random) -> int:
    """One token of the law."""
    return coins.choices(list(law), weights=list(law.values()))[0]


def residual_of(p: Law, q: Law) -> Law:
    """max(p − q, 0), scaled to 1; p where nothing is left."""
    rest = {token: max(mass - q.get(token, 0.0), 0.0) for token, mass in p.items()}
    total = sum(rest.values())
    return {token: mass / total for token, mass in rest.items() if mass} if total else p
