"""The metric's Space: score one answer against one reference."""

import gradio as gr

from h2htalk_metric import score
from h2htalk_metric.metrics.signature import signature_line


def score_answer(prediction: str, reference: str, language: str) -> tuple[dict[str, float], str]:
    """The seven components and the composite, 0..1, and the signature."""
    try:
        scores = score([prediction], [reference], language=language)
    except ValueError as error:
        raise gr.Error(str(error)) from None
    return {name: round(value, 4) for name, value in scores.mean().items()}, signature_line(scores.signature)


demo = gr.Interface(
    score_answer,
    inputs=[
        gr.Textbox(label="Answer", lines=3),
        gr.Textbox(label="Reference", lines=3),
        gr.Radio(["en", "zh"], value="en", label="Language"),
    ],
    outputs=[gr.JSON(label="Scores"), gr.Textbox(label="Signature")],
    title="H2HTalk's composite S",
    flagging_mode="never",
)

if __name__ == "__main__":
    demo.launch()
