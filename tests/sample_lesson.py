"""A lesson that uses every helper of the frame once; tests and nobody else teach with it."""

import gradio as gr

from engine import BlockPool, Request, SamplingParams
from lessons import frame, live, plots
from lessons.words import Words, cut

TEXT = """<!-- tab -->
Sample
<!-- title -->
A sample: one of everything
<!-- standfirst -->
This page holds one of each part that lessons are made of, so that a test can look at all of them. The mean waste of a
block of $B$ slots is $(B-1)/2$.
<!-- question -->
Why does a serving engine cut its cache into blocks?
<!-- predict.speed.question -->
How many tokens come out of a round with `K = 4`, on average?
<!-- predict.speed.choice.a -->
Exactly 4
<!-- predict.speed.choice.b -->
Between 1 and 5
<!-- predict.speed.choice.c -->
Always fewer than 4
<!-- predict.speed.after -->
A round gives at least one token and at most $K + 1$.
<!-- predict.share.question -->
Which share of the drafted tokens is accepted?
<!-- prose -->
Speculative decoding **never changes the law** of the output: $\\alpha = \\sum_x \\min(p(x), q(x))$. See `accept_chain`,
and [the derivation](#derive).
<!-- why.one -->
A draft is accepted with probability $\\min(1, p/q)$, so on average
<!-- why.two -->
and the overlap of two laws is one minus their total variation:
<!-- plot.x -->
Draft length K
<!-- plot.y -->
Tokens per round
<!-- interview.question -->
Is speculative decoding exact?
<!-- interview.short -->
Yes, by rejection sampling.
<!-- interview.long -->
Accept with $\\min(1, p/q)$; otherwise draw from the residual.
<!-- interview.follow_ups -->
- What if $q = p$?
<!-- interview.wrong -->
It is only approximately exact.
"""


def words(language: str) -> Words:
    """The sample's words; one language is enough for a test."""
    return Words("sample", language, cut(TEXT))


def build(t: Words) -> None:
    """One of everything."""
    frame.opening(t)
    frame.beat(t, "predict")
    frame.predict(t, "predict.speed")
    frame.predict_number(t, "predict.share", scale=(0, 100, 5), unit="%")
    frame.beat(t, "run")
    with gr.Row(elem_classes="controls"):
        prompt = gr.Textbox("The capital of France is", label="Prompt", max_length=2000, lines=2, scale=3)
        length = gr.Slider(1, 400, 24, step=1, label="Tokens")
        drafter = gr.Dropdown([("none", ""), ("made up", "made-up")], value="made-up", label="Drafter")
    run = gr.Button("Run", variant="primary", elem_id="sample-run")
    problem = gr.Markdown(elem_id="sample-problem")
    bar = frame.transport(t, run=live.replay("sample"))
    frame.legend(t)
    chart = plots.bars(plots.figure(x=t("plot.x"), y=t("plot.y")), [1, 2, 3, 4], [1.6, 2.1, 2.4, 2.6])
    plots.place(plots.marker_line(chart, 2.2, "you"), "tokens per round")
    done = gr.Markdown(elem_id="sample-done")
    frame.downloads(t, bar)
    frame.permalink(t, {"prompt": prompt, "tokens": length, "drafter": drafter})
    frame.beat(t, "derive", "The overlap of two laws")
    frame.prose(t("prose"))
    lines = [
        frame.Line(r"\alpha = \sum_x q(x) \min\left(1, \frac{p(x)}{q(x)}\right)", t("why.one")),
        frame.Line(r"\alpha = 1 - \mathrm{TV}(p, q)", t("why.two"), check="simplify(…) = 0, V = 2…4"),
    ]
    frame.derivation(t, lines)
    frame.callout("A **note** on the side.", "careful")
    frame.beat(t, "reconcile")
    rows = [frame.Row("E[τ]", 2.4, 2.31), frame.Row("Speed-up", 1.7, None, unit="×"), frame.Row("Name", "a<b", "c")]
    frame.table(frame.reconcile(t, rows))
    frame.source(t, BlockPool.append)
    frame.beat(t, "interview")
    frame.interview(t)
    _wire(t, run, (prompt, length, drafter), (bar, problem, done))


def _wire(t: Words, run: gr.Button, inputs: tuple, outputs: tuple) -> None:
    bar, problem, done = outputs

    def start(prompt: str, length: int, drafter: str) -> tuple:
        params = SamplingParams(max_new_tokens=length)
        try:
            run_id = live.run(
                [Request(prompt, params, id="plain"), Request(prompt, params, drafter, id="drafted")], "race"
            )
        except ValueError as refusal:
            return gr.skip(), frame.error(t, refusal)
        return run_id, ""

    def finish(run_id: str) -> str:
        return f"{len(live.events(run_id))} events"

    run.click(start, inputs=list(inputs), outputs=[bar, problem], show_progress="hidden", api_visibility="private")
    bar.done(finish, inputs=[bar], outputs=[done], show_progress="hidden", api_visibility="private")
