"""The colours of fates and owners as colour-blind readers see them, and the shapes that tell the same without colour.

Dichromacy as in Machado, Oliveira and Fernandes (2009), "A Physiologically-based Model for Simulation of Color Vision
Deficiency", their published matrices at severity 1, applied to linear RGB. Differences are CIEDE2000, as in Sharma, Wu
and Dalal (2005). About 1 is the least that is seen of two large fields that touch (its definition), and strokes and
small letters need several times that: owners, eight of them and each with a letter and a hatch, keep 7; fates, whose
tokens stand in the midst of one another, keep 9.
"""

import math
import re
from itertools import combinations

import pytest
from test_app import ASSETS, palettes

from lessons import plots

SEEN_AS = {
    "normal sight": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
TO_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
WHITE = (0.95047, 1.0, 1.08883)  # D65
LEAST = {"fate": 9, "owner": 7}
FATES = ("target", "accepted", "resampled", "bonus", "rejected")

Triple = tuple[float, float, float]


def times(matrix: tuple[Triple, ...], vector: Triple) -> Triple:
    """A matrix of three rows times a vector."""
    return tuple(sum(weight * part for weight, part in zip(row, vector, strict=True)) for row in matrix)


def linear(color: str) -> Triple:
    """Linear RGB of #rrggbb (IEC 61966-2-1)."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def lab(rgb: Triple) -> Triple:
    """CIE L*a*b* of linear RGB; what a simulation leaves outside the screen's range is clipped as a screen would."""
    xyz = times(TO_XYZ, tuple(min(1, max(0, part)) for part in rgb))
    shares = [part / white for part, white in zip(xyz, WHITE, strict=True)]
    x, y, z = (s ** (1 / 3) if s > 216 / 24389 else (24389 / 27 * s + 16) / 116 for s in shares)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: Triple, other: Triple) -> float:
    """CIEDE2000 of two L*a*b* colours (Sharma et al., equations 2 to 22)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * math.sqrt(mean**7 / (mean**7 + 25**7))
    c1, c2 = math.hypot(a1 * stretch, b1), math.hypot(a2 * stretch, b2)
    h1, h2 = (math.degrees(math.atan2(b, a * stretch)) for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = (h1 + turn / 2) % 360 if c1 * c2 else (h1 + h2) % 360
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    t = 1 + sum(height * math.cos(math.radians(turns * hue + shift)) for height, turns, shift in waves)
    in_lightness = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / math.sqrt(20 + (lightness - 50) ** 2))
    in_chroma = (c2 - c1) / (1 + 0.045 * chroma)
    in_hue = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    bend = 60 * math.exp(-(((hue - 275) / 25) ** 2))
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + 25**7)) * math.sin(math.radians(bend))
    return math.sqrt(in_lightness**2 + in_chroma**2 + in_hue**2 + rotation * in_chroma * in_hue)


def colors_of(where: str, kind: str) -> dict[str, str]:
    """The inks of fates or owners by name: of a theme, or of the charts, which have one set for both."""
    if where == "charts":
        every = plots.FATES if kind == "fate" else dict(enumerate(plots.OWNERS))
        return {f"{kind}-{name}": color for name, color in every.items()}
    return {name: color for name, color in palettes()[where].items() if re.fullmatch(rf"{kind}-([a-z]+|\d)", name)
            and name not in ("owner-free", "owner-cached")}  # fmt: skip


def rules(pattern: str) -> dict[str, str]:
    """What parts.css says of the selectors that match, by the pattern's group."""
    css = re.sub(r"/\*.*?\*/", "", (ASSETS / "parts.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    return {found[1]: found[2] for found in re.finditer(pattern + r"\s*\{([^}]*)\}", css)}


# ---- the measure itself -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other", "expected"), [
    ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),  # Sharma et al., table 1: pairs 1, 7, 16, 17, 25, 29, 33
    ((50, 0, 0), (50, -1, 2), 2.3669),
    ((50, 2.5, 0), (50, 0, -2.5), 4.3065),
    ((50, 2.5, 0), (73, 25, -18), 27.1492),
    ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
    ((6.7747, -0.2908, -2.4247), (5.8714, -0.0985, -2.2286), 0.6377),
])  # fmt: skip
def test_the_difference_is_the_published_one(one: Triple, other: Triple, expected: float) -> None:
    assert difference(one, other) == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize("sight", SEEN_AS)
def test_white_stays_white_to_every_eye(sight: str) -> None:
    assert times(SEEN_AS[sight], (1, 1, 1)) == pytest.approx((1, 1, 1), abs=2e-6)


def test_red_and_green_of_one_lightness_are_alike_to_one_eye_and_not_to_another() -> None:
    seen = {sight: [lab(times(matrix, linear(color))) for color in ("#99500a", "#6f5b00")]
            for sight, matrix in SEEN_AS.items()}  # fmt: skip
    assert difference(*seen["normal sight"]) > 15
    assert difference(*seen["protanopia"]) < 1


# ---- the palette --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sight", SEEN_AS)
@pytest.mark.parametrize("kind", LEAST)
@pytest.mark.parametrize("where", ["light", "dark", "charts"])
def test_fates_and_owners_differ_to_every_eye(where: str, kind: str, sight: str) -> None:
    colors = colors_of(where, kind)
    assert len(colors) == {"fate": 5, "owner": 8}[kind]
    seen = {name: lab(times(SEEN_AS[sight], linear(color))) for name, color in colors.items()}
    for one, other in combinations(seen, 2):
        found = difference(seen[one], seen[other])
        assert found >= LEAST[kind], f"{one} and {other} differ by {found:.1f}"


# Tints are pale grounds under letters, too near to each other for any eye: there the shape tells.


def test_every_fate_has_a_shape_of_its_own() -> None:
    bodies = rules(r"\.token\.fate-(\w+(?:::before)?)")
    shapes = {}
    for fate in FATES:
        said = re.findall(r"(?:border|text-decoration)[a-z-]*:[^;]*|content:[^;]*",
                          bodies[fate] + bodies.get(f"{fate}::before", ""))  # fmt: skip
        shapes[fate] = tuple(re.sub(r"var\(--[a-z-]+\)", "", one) for one in said)  # a colour is no shape
    assert all(shapes.values()), shapes
    assert len(set(shapes.values())) == len(FATES), shapes


def test_every_owner_has_a_hatch_of_its_own() -> None:
    hatches = {owner: re.sub(r"var\(--owner-\d\)", "", re.search(r"--hatch: ([^;]+);", body)[1])
               for owner, body in rules(r"\.owner-(\d)").items()}  # fmt: skip
    assert len(hatches) == len(set(hatches.values())) == 8, hatches


def test_series_of_one_chart_differ_by_shape_too() -> None:
    chart = plots.figure()
    for number in range(4):
        plots.bars(chart, [1], [number])
        plots.lines(chart, [1], [number])
    assert len({series.marker.symbol for series in chart.data if series.type == "scatter"}) == 4
    fillings = [series.marker.pattern.shape for series in chart.data if series.type == "bar"]
    assert len(set(fillings)) == 4
    assert fillings[0] == ""  # a chart of one series is plain
