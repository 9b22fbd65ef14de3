"""Formulas as MathML: browsers draw it themselves, so no script is needed."""

import re

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

# `\tfrac12` and `\tfrac C2`: the converter wants both arguments in braces.
ARGUMENT = r"\s*(\{[^{}]*\}|\\[A-Za-z]+|\w)"
FRACTION = re.compile(r"\\[td]?frac" + ARGUMENT + ARGUMENT)
# Commands that the converter of docutils does not know, and what it knows.
SPELLED = {r"\\dots\b": r"\\ldots", r"\\Big(?![A-Za-z])": r"\\Bigl"}


def converted(text, *, is_block):
    for given, known in SPELLED.items():
        text = re.sub(given, known, text)
    text = FRACTION.sub(r"\\frac{\1}{\2}", text)
    return tex2mathml(text, as_block=is_block)


def inline(writer, node):
    writer.body.append(converted(node.astext(), is_block=False))
    raise SkipNode


def block(writer, node):
    formula = converted(node.astext(), is_block=True)
    writer.body.append(f'<div class="math-block">{formula}</div>\n')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
