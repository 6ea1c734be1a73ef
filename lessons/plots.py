"""The look of every chart: one figure style and one palette, readable on light and on dark paper.

Knows nothing of lessons: numbers in, Plotly out. Moving pictures are stages (lessons/stage.py), not charts.
"""

import json
from collections.abc import Sequence

import gradio as gr
import plotly.graph_objects as go
from gradio.components.plot import PlotData

from lessons.stage import Quiet

# Mid tones with at least 3:1 on both papers of assets/palette.css, told apart by colour-blind readers (tests hold them
# to both).
NEUTRAL = "#747d8c"
ACCENT = "#3d83d9"
GOOD = "#24976a"
BAD = "#d4552f"
FATES = {"target": NEUTRAL, "accepted": GOOD, "resampled": "#d9690f", "bonus": "#9465d6", "rejected": "#938e8e"}
OWNERS = ("#3b86bd", "#d17d12", "#0fa076", "#d55799", "#8c7526", "#8776f6", "#c64b58", "#6a7f8d")
# Beside its colour each series of a chart has a shape of its own: the points of its line, the filling of its bars.
MARKS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "triangle-down")
FILLINGS = ("", "/", "x", ".", "\\", "-", "|", "+")

FONT = '"Source Sans Pro", system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif'
CONFIG = {"displaylogo": False}  # the logo is a link to another site
_GRID = "rgba(116, 125, 140, 0.22)"


def figure(x: str = "", y: str = "", height: int = 320) -> go.Figure:
    """An empty figure in the house style; x and y are the axis titles."""
    axis = {"gridcolor": _GRID, "zeroline": False, "linecolor": NEUTRAL, "ticks": "outside", "tickcolor": _GRID}
    return go.Figure(
        layout={
            "template": "none",
            "height": height,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 14, "color": NEUTRAL},
            "margin": {"l": 56, "r": 16, "t": 16, "b": 48},
            "xaxis": axis | {"title": {"text": x}, "showgrid": False, "automargin": True},
            "yaxis": axis | {"title": {"text": y}, "automargin": True},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "bgcolor": "rgba(0,0,0,0)"},
            "hoverlabel": {"font": {"family": FONT}},
            "bargap": 0.28,
            "dragmode": False,
        }
    )


def bars(chart: go.Figure, x: Sequence, y: Sequence[float], name: str = "", color: str = ACCENT) -> go.Figure:
    """Add one series of bars; several are grouped."""
    shape = FILLINGS[_num_of(chart, "bar") % len(FILLINGS)]
    filling = {"shape": shape, "fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.5, "size": 6}
    look = {"color": color, "line": {"width": 0}, "pattern": filling}
    return chart.add_bar(x=list(x), y=list(y), name=name, marker=look)


def lines(chart: go.Figure, x: Sequence, y: Sequence[float], name: str = "", color: str = ACCENT) -> go.Figure:
    """Add one line with its points marked."""
    style = {"color": color, "width": 2}
    points = {"color": color, "size": 6, "symbol": MARKS[_num_of(chart, "scatter") % len(MARKS)]}
    return chart.add_scatter(x=list(x), y=list(y), name=name, mode="lines+markers", line=style, marker=points)


def _num_of(chart: go.Figure, kind: str) -> int:
    """How many series of that kind the chart has."""
    return sum(series.type == kind for series in chart.data)


def marker_line(chart: go.Figure, value: float, label: str, axis: str = "y", color: str = BAD) -> go.Figure:
    """Add a dashed reference line with a label, such as the reader's prediction; axis "y" is a horizontal line."""
    style = {"line": {"color": color, "width": 1.5, "dash": "dash"}, "annotation": {"font": {"color": color}}}
    if axis == "y":
        return chart.add_hline(y=value, annotation_text=label, annotation_position="top right", **style)
    return chart.add_vline(x=value, annotation_text=label, annotation_position="top right", **style)


class Chart(gr.Plot, metaclass=Quiet):
    """A place for a figure. Gradio's own knows no config, but hands on to Plotly the one that a figure's JSON names."""

    def postprocess(self, value: go.Figure | None) -> PlotData | None:
        """The figure's JSON with our config."""
        data = super().postprocess(value)
        if data is not None:
            data.plot = json.dumps(json.loads(data.plot) | {"config": CONFIG})
        return data

    def get_block_name(self) -> str:
        """The browser shows it with Gradio's own plot."""
        return "plot"


def place(chart: go.Figure | None, label: str) -> Chart:
    """Put a figure on the page; the label is for those who do not see it."""
    return Chart(value=chart, label=label, show_label=False, container=False, elem_classes="chart")
